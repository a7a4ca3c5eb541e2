"""An ACMP provider, written from the specifications: MCP, JSON-RPC and ACMP.

Its arguments say how it misbehaves, where it notes what it hears, and what carries it: nothing for standard input and
output, or `websocket` or `http`; then it says at which port. With `tls` besides, it shows the certificate of `tls.pem`,
which nobody trusts who is not told to.
"""

import hashlib
import http.server
import json
import os
import socket
import ssl
import sys
import threading
import time

sys.dont_write_bytecode = True

import websocket

HOW, LOG = sys.argv[1], sys.argv[2]
LOCK = threading.RLock()
SESSION = "session-1"
HUGE = 1 << 30


def note(what):
    with LOCK, open(LOG, "a") as log:
        log.write(json.dumps(what) + "\n")


def heard_before(method):
    with LOCK, open(LOG, "a+") as log:
        log.seek(0)
        return sum(json.loads(line).get("method") == method for line in log)


def greeting():
    streams = HOW.startswith("streams")
    features = {"output_streaming": streams and HOW != "streams_in", "input_streaming": streams and HOW != "streams_out"}
    if HOW in ("silent", "beats", "beats_on", "beats_aside"):
        features["heartbeat_interval_ms"] = 50
    acmp = {"version": "9.0.0" if HOW == "version" else "0.1.0", "role": "provider", "features": features}
    return {"protocolVersion": "2025-06-18", "capabilities": {} if HOW == "mcp" else {"acmp": acmp}}


def hash_of(output):
    # The outputs here have only ASCII keys in order and no fractions, where sorted JSON is canonical.
    text = json.dumps(output, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


PRICES = {"five": 5, "vast": 2e9, "negative": -1, "no_price": "free", "dear": 0.5, "nan": float("nan"), "infinite": float("inf"), "huge": 1e300}


def answer(params):
    output = {"type": "json", "data": {"said": params["input"]["data"]}}
    result = {"task_id": params["task_id"], "output": output, "cost_cu": PRICES.get(HOW, 0.001)}
    if HOW != "tokenless":
        result["tokens_used"] = 1 << 63 if HOW == "wordy" else 7
    if params.get("proof_method"):
        result["proof"] = {"method": params["proof_method"], "hash": hash_of(output)}
    if HOW == "wrong_id":
        result["task_id"] = "task_another"
    elif HOW == "no_output":
        del result["output"]
    elif HOW == "streamed":
        del result["output"]
        result["output_streamed"] = True
    elif HOW == "no_proof":
        del result["proof"]
    elif HOW == "false_proof":
        result["proof"]["hash"] = "sha256:00"
    elif HOW == "proves_late" and heard_before("acmp/invoke") == 1:
        result["proof"]["hash"] = "sha256:00"
    elif HOW == "other_proof":
        result["proof"]["method"] = "tee-attestation"
    return result


ERRORS = {
    "budget": -33001, "capability": -33002, "timeout": -33003, "cancelled": -33004, "escrow": -33005,
    "proof": -33006, "feature": -33007, "internal": -33099, "params": -32602, "odd": 7,
}

# What is said that is no message.
NO_MESSAGES = {
    "nonsense": "nonsense", "cut": '{"jsonrpc": "2.0", "id": ', "deep": "[" * 10_000, "null": "null", "batch": "[]",
    "unversioned": '{"method": "acmp/heartbeat", "params": {}}', "methodless": '{"jsonrpc": "2.0", "method": 7}',
}

OTHER_IDS = {"another_id": "another", "numeric_id": 7}

# What is answered when it is too late, by task.
LATE = {}

# Requests for tasks whose inputs come in chunks, and the chunks.
INPUTS = {}


def take_chunk(params):
    if params["task_id"] not in INPUTS:
        return
    message, chunks, wire = INPUTS[params["task_id"]]
    chunks.append(params)
    if params["final"]:
        del INPUTS[params["task_id"]]
        assert [it["seq"] for it in chunks] == list(range(len(chunks)))
        stream(message, "".join(str(it["chunk"]["data"]) for it in chunks), wire)


def result_of(params, text):
    output = {"type": "text", "data": text}
    result = {"task_id": params["task_id"], "output": output, "tokens_used": 7, "cost_cu": 0.001}
    if params.get("proof_method"):
        result["proof"] = {"method": params["proof_method"], "hash": hash_of(output)}
    return result


def stream(message, text, wire):
    """Answers with the text in brackets; in chunks, if that is wanted."""
    params, text = message["params"], f"[{text}]"
    result = result_of(params, text)
    if not params["stream"]:
        wire.send({"id": message["id"], "result": result})
        return
    if HOW == "streams_refused":
        wire.send({"id": message["id"], "error": {"code": -33007, "message": "not this capability"}})
        return
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    chunks = [{"seq": seq, "chunk": {"type": "text", "data": it}, "final": False} for seq, it in enumerate(pieces)]
    chunks[-1]["final"] = HOW not in ("streams_unfinished", "streams_on")
    if HOW == "streams_gap":
        del chunks[1]
    elif HOW == "streams_twice":
        chunks.insert(1, chunks[0])
    elif HOW == "streams_after":
        chunks.append({**chunks[-1], "seq": len(chunks)})
    elif HOW == "streams_nothing":
        chunks = []
    elif HOW == "streams_other":
        chunks[0]["chunk"]["data"] = "<<<"
    is_lost = HOW == "streams_lost_once" and heard_before("acmp/invoke") == 1
    for chunk in chunks:
        wire.send({"method": "acmp/streamChunk", "params": {"task_id": params["task_id"], **chunk}})
        if chunk["seq"] == 0 and (is_lost or HOW in ("streams", "streams_fails_late", "streams_slowly")):
            # As soon as somebody has begun with it, which a log says.
            meet()
            time.sleep(0.5 if HOW == "streams_slowly" else 0)
        if is_lost:
            wire.close()
            return
    while HOW == "streams_on":
        endless = {"task_id": params["task_id"], "seq": len(chunks), "chunk": {"type": "text", "data": "x" * 100_000}}
        wire.send({"method": "acmp/streamChunk", "params": endless})
        chunks.append(None)
    if HOW == "streams_fails_late":
        wire.send({"id": message["id"], "error": {"code": -33099, "message": "after all"}})
        return
    if HOW not in ("streams_whole", "streams_other"):
        del result["output"]
        result["output_streamed"] = True
    if HOW == "streams_false":
        result["proof"]["hash"] = "sha256:00"
    wire.send({"id": message["id"], "result": result})


def meet():
    folder = os.path.dirname(LOG)
    for _ in range(1000):
        for name in os.listdir(folder):
            if name.startswith("heard-") and '"acmp/inputChunk"' in open(os.path.join(folder, name)).read():
                return
        time.sleep(0.005)


def react(message, wire):
    """Says what there is to say of a message."""
    note(message)
    method, params = message.get("method"), message.get("params")
    if method == "initialize":
        if HOW == "old":
            wire.send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        elif HOW != "mute":
            wire.send({"id": message["id"], "result": greeting()})
    elif method == "acmp/invoke":
        invoke(message, params, wire)
    elif method == "acmp/inputChunk":
        take_chunk(params)
    elif method == "acmp/cancel" and params["task_id"] in LATE:
        late, result = LATE.pop(params["task_id"])
        late.send(result)


def invoke(message, params, wire):
    if HOW.startswith("streams"):
        if params["input_stream"] and HOW == "streams_early":
            wire.send({"id": message["id"], "result": result_of(params, "early")})
        elif params["input_stream"]:
            INPUTS[params["task_id"]] = message, [], wire
            wire.wait()
        else:
            stream(message, str(params["input"]["data"]), wire)
        return
    result = {"id": message["id"], "result": answer(params)}
    beat = {"method": "acmp/heartbeat", "params": {"task_id": params["task_id"]}}
    if HOW in ERRORS:
        error = {"code": ERRORS[HOW], "message": "it says so", "data": {"task_id": params["task_id"]}}
        wire.send({"id": message["id"], "error": error})
        return
    if HOW in ("silent", "never") or (HOW == "later" and heard_before("acmp/invoke") == 1):
        wire.wait()
        return
    if HOW == "fails_once" and heard_before("acmp/invoke") == 1:
        wire.send({"id": message["id"], "error": {"code": -33099, "message": "not this time"}})
        return
    if HOW == "fails_when":
        # As soon as another provider has something to do, which its log says.
        while "acmp/invoke" not in (open(sys.argv[3]).read() if os.path.exists(sys.argv[3]) else ""):
            time.sleep(0.005)
        wire.send({"id": message["id"], "error": {"code": -33099, "message": "it says so"}})
        return
    while HOW == "floods_on":
        wire.send({"method": "acmp/streamChunk", "params": {"task_id": params["task_id"], "seq": 0}})
        wire.send({"id": "another", "result": answer(params)})
        wire.send({"method": "acmp/heartbeat", "params": {"task_id": "task_another"}})
    while HOW == "beats_on":
        time.sleep(0.01)
        wire.send(beat)
    if HOW in ("spoils_one", "spoils_all"):
        LATE[params["task_id"]] = wire, result
        if len(LATE) == 2:
            (first, spoiled), (second, right) = LATE.values()
            whole = json.dumps({**spoiled, "jsonrpc": "1.0"}) if HOW == "spoils_one" else "nonsense"
            first.message(whole.encode())
            second.send(right)
        return
    if HOW == "late":
        LATE[params["task_id"]] = wire, result
        wire.wait()
        return
    if HOW in ("beats", "beats_aside"):
        for _ in range(20):
            time.sleep(0.02)
            (wire.aside if HOW == "beats_aside" else wire.send)(beat)
    if HOW == "closes" or (HOW == "closes_once" and heard_before("acmp/invoke") == 1):
        wire.close()
    elif HOW == "long":
        wire.message(b"x" * (1 << 20))
    elif HOW == "announced":
        wire.announce(HUGE)
        wire.wait()
    elif HOW == "endless":
        wire.endless()
    elif HOW == "not_utf8":
        wire.message(b"\xff\xfe")
    elif HOW == "half":
        wire.half(b'{"jsonrpc": "2.0", "id": ')
        wire.close()
    elif HOW in NO_MESSAGES:
        wire.message(NO_MESSAGES[HOW].encode())
        wire.wait()
    elif HOW in OTHER_IDS:
        wire.send({**result, "id": OTHER_IDS[HOW]})
        wire.wait()
    elif HOW == "error_text":
        wire.send({"id": message["id"], "error": "out of order"})
    else:
        if HOW == "floods":
            chunk = {"type": "text", "data": "x"}
            for seq in range(20_000):
                wire.send({"method": "acmp/streamChunk", "params": {"task_id": params["task_id"], "seq": seq, "chunk": chunk, "final": False}})
            wire.send({"id": "another", "result": answer(params)})
            wire.send({"method": "acmp/unheard-of", "params": [1]})
            wire.message(b"")
        wire.send(result)


class Wire:
    """Whatever carries messages."""

    def send(self, message):
        self.message(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def aside(self, message):
        self.send(message)

    def wait(self):
        """Says nothing more."""


class Lines(Wire):
    def message(self, data):
        self.half(data + b"\n")

    def half(self, data):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def endless(self):
        while True:
            self.half(b"x" * (1 << 16))

    def close(self):
        os._exit(0)


class Frames(Wire):
    def __init__(self, stream):
        self.stream = stream

    def message(self, data):
        self.stream.sendall(websocket.frame(data))

    def half(self, data):
        self.stream.sendall(websocket.frame(data, size=1000))

    def announce(self, size):
        self.stream.sendall(websocket.frame(b"{", size=size))

    def endless(self):
        piece = b"x" * 1000
        # A message in pieces, of which none is the last.
        self.stream.sendall(b"\x01\x7e\x03\xe8" + piece)
        while True:
            self.stream.sendall(b"\x00\x7e\x03\xe8" + piece)

    def close(self):
        self.stream.shutdown(socket.SHUT_RDWR)

    def serve(self):
        websocket.accept(self.stream)
        while True:
            kind, data = websocket.receive(self.stream)
            if kind == websocket.CLOSE:
                return
            if kind == websocket.TEXT:
                react(json.loads(data), self)


LISTENERS = []


class Requests(http.server.BaseHTTPRequestHandler, Wire):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.is_begun = self.is_over = False

    def log_message(self, *_):
        pass

    def respond(self, status, headers=()):
        self.send_response(status)
        for name, value in (("Connection", "close"), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True

    def has_session(self):
        if HOW == "old" or self.headers["Mcp-Session-Id"] == SESSION:
            return self.headers["MCP-Protocol-Version"] == "2025-06-18"
        return False

    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        message = json.loads(data)
        accepted = self.headers["Accept"]
        if "application/json" not in accepted or "text/event-stream" not in accepted:
            return self.respond(406)
        if message["method"] == "initialize":
            self.plain = True
        elif not self.has_session():
            return self.respond(400)
        else:
            self.plain = HOW == "plain"
        is_invoke = message["method"] == "acmp/invoke"
        if HOW == "forgets_once" and is_invoke and not heard_before("acmp/invoke"):
            note(message)
            return self.respond(404)
        if is_invoke and HOW in STATUSES:
            note(message)
            return self.respond(STATUSES[HOW], [("Location", "/elsewhere")])
        if message["method"] == "acmp/inputChunk" and HOW == "streams_deaf":
            note(message)
            return self.respond(503)
        if "id" not in message:
            react(message, self)
            return self.respond(202)
        react(message, self)

    def do_GET(self):
        note({"method": "GET " + self.path})
        if HOW != "beats_aside" or not self.has_session():
            return self.respond(405)
        LISTENERS.append(self)
        self.begin()
        self.wait()

    def do_DELETE(self):
        note({"method": "DELETE"})
        self.respond(200)

    def begin(self):
        if not self.is_begun:
            self.is_begun = True
            self.respond(200, [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")])

    def message(self, data):
        if getattr(self, "plain", False):
            headers = [("Content-Type", "application/json"), ("Content-Length", len(data)), ("Mcp-Session-Id", SESSION)]
            self.respond(200, headers)
            self.wfile.write(data)
        else:
            self.half(data + b"\n\n")

    def half(self, data):
        self.begin()
        self.wfile.write(b"event: message\ndata: " + data)
        self.wfile.flush()

    def aside(self, message):
        for listener in LISTENERS:
            listener.send(message)

    def announce(self, size):
        self.is_begun = True
        self.respond(200, [("Content-Type", "application/json"), ("Content-Length", size)])
        self.wfile.write(b"{")
        self.wfile.flush()

    def endless(self):
        self.half(b"")
        while True:
            self.wfile.write(b"x" * (1 << 16))

    def close(self):
        self.begin()

    def wait(self):
        # Until whoever asked is gone.
        self.begin()
        self.connection.settimeout(60)
        try:
            self.connection.recv(1)
        except OSError:
            pass


STATUSES = {"unavailable": 503, "redirects": 307, "unauthorized": 401, "empty": 202}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        """Buyers may hang up."""


def secured(listener):
    if "tls" not in sys.argv[4:]:
        return listener
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(os.path.dirname(__file__), "tls.pem"))
    return context.wrap_socket(listener, server_side=True, do_handshake_on_connect=False)


def serve_frames():
    listener = secured(socket.create_server(("127.0.0.1", 0)))
    print(listener.getsockname()[1], flush=True)

    def serve(stream):
        try:
            Frames(stream).serve()
        except (OSError, EOFError):
            pass

    while True:
        stream, _ = listener.accept()
        threading.Thread(target=serve, args=[stream], daemon=True).start()


def serve_requests():
    server = Server(("127.0.0.1", 0), Requests)
    server.socket = secured(server.socket)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def serve_lines():
    if HOW == "banner":
        print("Welcome!", flush=True)
    for line in sys.stdin:
        react(json.loads(line), Lines())


{"websocket": serve_frames, "http": serve_requests}.get("".join(sys.argv[3:4]), serve_lines)()
