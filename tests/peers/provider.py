"""An ACMP provider on standard input and output, written from the specification. Its first argument says how it misbehaves."""

import hashlib
import json
import os
import sys
import time

HOW = sys.argv[1]
LOG = sys.argv[2]


def note(what):
    with open(LOG, "a") as log:
        log.write(json.dumps(what) + "\n")


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def heard_before(method):
    with open(LOG, "a+") as log:
        log.seek(0)
        return sum(json.loads(line).get("method") == method for line in log)


def greeting():
    features = {"output_streaming": False, "input_streaming": False}
    if HOW in ("silent", "beats", "beats_on"):
        features["heartbeat_interval_ms"] = 50
    acmp = {"version": "9.0.0" if HOW == "version" else "0.1.0", "role": "provider", "features": features}
    return {"protocolVersion": "2025-06-18", "capabilities": {} if HOW == "mcp" else {"acmp": acmp}}


def hash_of(output):
    # The outputs here have only ASCII keys in order and no fractions, where sorted JSON is canonical.
    text = json.dumps(output, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def answer(params):
    output = {"type": "json", "data": {"said": params["input"]["data"]}}
    result = {"task_id": params["task_id"], "output": output, "tokens_used": 7, "cost_cu": 0.001}
    if params.get("proof_method"):
        result["proof"] = {"method": params["proof_method"], "hash": hash_of(output)}
    if HOW == "wrong_id":
        result["task_id"] = "task_another"
    elif HOW == "negative":
        result["cost_cu"] = -1
    elif HOW == "no_price":
        result["cost_cu"] = "free"
    elif HOW == "dear":
        result["cost_cu"] = 0.5
    elif HOW == "no_output":
        del result["output"]
    elif HOW == "streamed":
        del result["output"]
        result["output_streamed"] = True
    elif HOW == "no_proof":
        del result["proof"]
    elif HOW == "false_proof":
        result["proof"]["hash"] = "sha256:00"
    elif HOW == "other_proof":
        result["proof"]["method"] = "tee-attestation"
    return result


ERRORS = {
    "budget": -33001, "capability": -33002, "timeout": -33003, "cancelled": -33004, "escrow": -33005,
    "proof": -33006, "feature": -33007, "internal": -33099, "params": -32602, "odd": 7,
}

for line in sys.stdin:
    message = json.loads(line)
    note(message)
    method, params = message.get("method"), message.get("params")
    if method == "initialize":
        if HOW == "old":
            send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        elif HOW != "mute":
            send({"id": message["id"], "result": greeting()})
    elif method == "acmp/invoke":
        if HOW in ERRORS:
            error = {"code": ERRORS[HOW], "message": "it says so", "data": {"task_id": params["task_id"]}}
            send({"id": message["id"], "error": error})
            continue
        if HOW in ("silent", "never"):
            continue
        if HOW == "fails_once" and heard_before("acmp/invoke") == 1:
            send({"id": message["id"], "error": {"code": -33099, "message": "not this time"}})
            continue
        if HOW == "fails_when":
            # As soon as another provider has something to do, which its log says.
            while "acmp/invoke" not in (open(sys.argv[3]).read() if os.path.exists(sys.argv[3]) else ""):
                time.sleep(0.005)
            send({"id": message["id"], "error": {"code": -33099, "message": "it says so"}})
            continue
        while HOW == "beats_on":
            time.sleep(0.01)
            send({"method": "acmp/heartbeat", "params": {"task_id": params["task_id"]}})
        if HOW == "beats":
            for _ in range(20):
                time.sleep(0.02)
                send({"method": "acmp/heartbeat", "params": {"task_id": params["task_id"]}})
        if HOW == "closes" or (HOW == "closes_once" and heard_before("acmp/invoke") == 1):
            os._exit(0)
        if HOW == "long":
            sys.stdout.write("x" * (1 << 20))
            sys.stdout.flush()
            continue
        if HOW == "not_utf8":
            sys.stdout.buffer.write(b"\xff\xfe\n")
            sys.stdout.flush()
            continue
        if HOW == "half":
            sys.stdout.write('{"jsonrpc": "2.0", "id": ')
            sys.stdout.flush()
            os._exit(0)
        if HOW == "floods":
            chunk = {"type": "text", "data": "x"}
            for seq in range(20_000):
                send({"method": "acmp/streamChunk", "params": {"task_id": params["task_id"], "seq": seq, "chunk": chunk, "final": False}})
            send({"id": "another", "result": answer(params)})
            send({"method": "acmp/unheard-of", "params": [1]})
            sys.stdout.write("null\n[]\nnonsense\n")
        send({"id": message["id"], "result": answer(params)})
