"""A conveyor whose workers are one agent of AG2, over A2A."""

import json
import signal
import subprocess
import time
import urllib.request

STARTS_WITHIN = 30
ENDS_WITHIN = 30

# The tasks, and what comes of each.
TASKS = {
    "words": ("Words", "answer hello from afar", "hello from afar"),
    "pieces": ("Words", "pieces one answer in pieces", "one answer in pieces"),
    "score": ("Scores", 'answer {"score": 3}', 3),
    "after": ("Words", "wait 0.2", "0.2"),
    "breaks": ("Words", "break on purpose", None),
}


def settle(home, address):
    """Puts the address of the agent into the workflow, which it is known by alone."""
    agents = home / "workflows" / "Remote" / "agents.yaml"
    agents.write_text(agents.read_text().replace("ADDRESS", address))


def check(address, home, program, start, expect):
    settle(home, address)
    run = start(address, "Remote", "remote workers", "--plan", plan(home, TASKS))
    results = run.result["context"]["remote_results"]
    for name, (_, _, wanted) in TASKS.items():
        output = results.get(name, {})
        got = output.get("score", output.get("agent_message"))
        got = got.strip() if isinstance(got, str) else got
        expect(got == wanted, f"remote workers: {name} is {output}")
    failed = results["_failed"]
    expect(list(failed) == ["breaks"] and run.failures() == ["agent_failed"], f"remote workers: {failed}")
    states = tasks(address)
    print(f"AG2, five tasks over A2A: exit {run.code}, over there {states}", flush=True)
    expect(run.code == 3 and sorted(states) == ["COMPLETED"] * 4 + ["FAILED"], f"remote workers: {run.code}, {states}")

    stopped = stop(address, home, program, expect)
    print(f"AG2, a run that is stopped after it began two tasks: exit {stopped}, over there {tasks(address)[-2:]}", flush=True)
    return 2


def stop(address, home, program, expect):
    """Stops a run while the agent works, and looks how its tasks ended."""
    waiting = {name: ("Words", "wait 600", None) for name in ("long", "longer")}
    command = [program, "Remote", "--json", "--grace", "0", "--plan", plan(home, waiting)]
    before = len(tasks(address))
    with subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        until(lambda: tasks(address)[before:].count("WORKING") == 2, expect, "the agent began no two tasks")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=ENDS_WITHIN)
    # The run said so before it ended.
    ended = tasks(address)[before:]
    expect(run.returncode == 130 and ended == ["CANCELED"] * 2, f"a stopped run: exit {run.returncode}, {ended}")
    return run.returncode


def plan(home, tasks):
    path = home / "remote-plan.json"
    fields = [{"task_id": name, "execution_agent": agent, "task_prompt": prompt} for name, (agent, prompt, _) in tasks.items()]
    path.write_text(json.dumps(fields))
    return path


def tasks(address):
    """The states of all tasks of the agent, the oldest first."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 100}}
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        found = json.load(answer)["result"].get("tasks", [])
    found.sort(key=lambda it: it["status"].get("timestamp", ""))
    return [it["status"]["state"].removeprefix("TASK_STATE_") for it in found]


def until(holds, expect, otherwise):
    end = time.monotonic() + STARTS_WITHIN
    while not holds():
        expect(time.monotonic() < end, otherwise)
        time.sleep(0.05)
