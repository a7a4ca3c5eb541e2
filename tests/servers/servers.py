"""What the real servers are, and how they are started and ended. Everything they need goes into one folder."""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import micro_model

HERE = Path(__file__).resolve().parent
# Without what they depend on, where the part used here needs none of it.
PACKAGES = [
    ["--no-deps", "xllamacpp==2026.10.11549"],
    ["llmock==0.2.2"],
    ["ag2[a2a]==1.2.1", "a2a-sdk[http-server]==1.3.0", "uvicorn"],
]
AIMOCK = "@copilotkit/aimock@1.43.0"
STARTS_WITHIN = 60


def install(folder):
    """Makes a virtual environment with all packages, unless it is there. Gives the folder of its programs."""
    venv, done = folder / "venv", folder / "venv" / "installed.json"
    if not done.is_file() or json.loads(done.read_text()) != PACKAGES:
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        for packages in PACKAGES:
            subprocess.run([venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
        done.write_text(json.dumps(PACKAGES))
    return venv / "bin"


@contextlib.contextmanager
def llama(programs, folder):
    """llama.cpp with the micro model. Gives its address."""
    model = folder / "micro.gguf"
    micro_model.write(model)
    command = [programs / "python", HERE / "llama_server.py", model]
    with started(command, folder / "llama.log", subprocess.PIPE) as process:
        address = process.stdout.readline().decode().strip()
        wait_for(process, f"{address}/health")
        yield address


@contextlib.contextmanager
def aimock(folder):
    """A server that answers by what was said. Gives its address, or nothing where there is no npm."""
    npm = shutil.which("npm")
    if not npm:
        yield None
        return
    home = folder / "aimock"
    home.mkdir(parents=True, exist_ok=True)
    program = home / "node_modules/.bin/llmock"
    if not program.is_file():
        subprocess.run([npm, "install", "--silent", "--no-audit", "--no-fund", AIMOCK], cwd=home, check=True)
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [program, "-p", str(port), "-f", HERE / "fixtures", "--strict"]
    with started(command, folder / "aimock.log", None) as process:
        wait_for(process, f"{address}/__aimock/journal")
        yield address


@contextlib.contextmanager
def ag2(programs, folder):
    """An agent of AG2 that is spoken to over A2A. Gives its address."""
    command = [programs / "python", HERE / "ag2_agent.py"]
    with started(command, folder / "ag2.log", subprocess.PIPE) as process:
        address = process.stdout.readline().decode().strip()
        wait_for(process, f"{address}/.well-known/agent-card.json")
        yield address


@contextlib.contextmanager
def llmock(programs, folder):
    """A server that fails as it is told. Gives its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [programs / "llmock", "serve", "--host", "127.0.0.1", "--port", str(port)]
    with started(command, folder / "llmock.log", None) as process:
        wait_for(process, f"{address}/_llmock/scenario")
        yield address


def free_port():
    """For servers that do not say which port they took: one that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def started(command, log, stdout):
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout or file, stderr=file)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(process, url):
    """Until a server answers there."""
    end = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end and process.poll() is None:
        try:
            return call("GET", url)
        except (OSError, ValueError):
            time.sleep(0.1)
    raise SystemExit(f"the server {process.args} did not start; see its log")


def call(method, url, value=None):
    """One request with JSON, if any. Gives the JSON that comes back."""
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)
