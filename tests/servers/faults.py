"""Failures on order: what the server does, and what the run has to make of it."""

from servers import call

# A worker is asked at most three times with a second for each, and each case begins with nothing on order.
# Name, what the server does, the exit code, the kinds of failure in order, the least seconds it takes.
WORKER, TELLER = {"model": "worker"}, {"model": "teller"}
CUT = {"type": "reply", "text": '{"done": tr', "finish_reason": "length", "match": WORKER}


def fail(status, **more):
    return {"type": "fail", "status": status, "match": WORKER, **more}


def reply(text):
    return {"type": "reply", "text": text, "match": WORKER}


CASES = [
    ("nothing", [], 0, [], 0),
    ("429, ask again in 1.5 s", [fail(429, retry_after=1.5)], 0, ["rate_limited"], 1.5),
    ("503, ask again in 1 s", [fail(503, retry_after=1)], 0, ["overloaded"], 1),
    ("500 twice", [fail(500, times=2)], 0, ["overloaded"] * 2, 0),
    ("500 for good", [fail(500, times=None)], 1, ["overloaded"] * 3, 0),
    ("429 without money", [fail(429, code="insufficient_quota")], 1, ["quota"], 0),
    ("400", [fail(400)], 1, ["bad_request"], 0),
    ("401", [fail(401)], 1, ["authentication"], 0),
    ("404", [fail(404)], 1, ["not_found"], 0),
    ("slower than the timeout", [{"type": "delay", "seconds": 2, "match": WORKER}], 0, ["timeout"], 1),
    ("cut off", [CUT], 0, ["truncated"], 0),
    ("no JSON", [reply("Well, I think so.")], 0, ["not_json"], 0),
    ("JSON that ends early", [reply('{"done": true, "si')], 0, ["truncated"], 0),
    ("another shape", [reply('{"done": "very", "size": 1}')], 0, ["wrong_shape"], 0),
    ("no text", [reply(" ")], 0, ["empty"], 0),
    ("429 outside a batch", [fail(429, retry_after=1, match=TELLER)], 0, ["rate_limited"], 1),
    ("403 outside a batch", [fail(403, match=TELLER)], 1, ["authentication"], 0),
]


def check(address, start, expect):
    for name, orders, code, kinds, least in CASES:
        call("DELETE", f"{address}/_llmock/scenario")
        if orders:
            call("POST", f"{address}/_llmock/scenario", {"behaviors": orders})
        # The input is in every question, so that no case is taken for another one's second attempt.
        run = start(address, "Faults", name, "--input", name)
        used = run.result["usage"]["output_tokens"]
        print(f"llmock, {name}: exit {run.code}, {', '.join(run.failures()) or 'no failure'}, {run.seconds:.1f} s", flush=True)
        expect(run.code == code, f"{name}: exit code {run.code} instead of {code}: {run.result['reason']}")
        expect(run.failures() == kinds, f"{name}: {run.failures()} instead of {kinds}")
        expect(run.seconds >= least, f"{name}: asked again after {run.seconds:.2f} s; {least} s were asked for")
        expect(used or code, f"{name}: nothing was counted")
    return len(CASES)
