"""An ACMP buyer over a WebSocket or Streamable HTTP, written from the specifications: MCP, JSON-RPC and ACMP.

A fifth argument is the address it comes from. Reads messages, one JSON object a line, and prints what comes back, until as many answers have come as were asked for.
"""

import http.client
import json
import socket
import sys
import threading

sys.dont_write_bytecode = True

import websocket

KIND, HOST, PORT, TOKEN = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
SOURCE = (sys.argv[5], 0) if sys.argv[5:] else None
AUTHORIZATION = {} if TOKEN == "-" else {"Authorization": f"Bearer {TOKEN}"}
PRINTING = threading.Lock()


def show(text):
    with PRINTING:
        print(text, flush=True)


def wants_answer(line):
    try:
        message = json.loads(line)
    except ValueError:
        return True
    return not isinstance(message, dict) or "id" in message


def over_websocket(lines):
    stream = socket.create_connection((HOST, PORT), timeout=30, source_address=SOURCE)
    headers = [f"{name}: {value}" for name, value in AUTHORIZATION.items()]
    status = websocket.connect(stream, f"{HOST}:{PORT}", headers)
    if " 101 " not in status:
        show(status)
        sys.exit(1)
    wanted = 0
    for line in lines:
        stream.sendall(websocket.frame(line.encode(), is_masked=True))
        wanted += wants_answer(line)
    while wanted:
        kind, data = websocket.receive(stream)
        if kind == websocket.CLOSE:
            sys.exit("closed")
        if kind != websocket.TEXT:
            continue
        wanted -= "id" in json.loads(data)
        show(data.decode())


def post(line, begun):
    """One message, and all that is said in response. The next one may be sent when this one is taken in."""
    connection = http.client.HTTPConnection(HOST, PORT, timeout=30, source_address=SOURCE)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "MCP-Protocol-Version": "2025-06-18", **AUTHORIZATION}
    connection.request("POST", "/", line.encode(), headers)
    response = connection.getresponse()
    begun.set()
    kind = response.getheader("Content-Type", "")
    if kind.startswith("text/event-stream"):
        for event in response:
            if event.startswith(b"data: "):
                show(event[6:].decode().rstrip("\n"))
    elif kind.startswith("application/json"):
        show(response.read().decode())
    elif response.status != 202:
        show(f"HTTP/1.1 {response.status}")
        return 1
    elif wants_answer(line):
        show("there is no answer")
        return 1
    return 0


def over_http(lines):
    codes, posting = [], []
    for line in lines:
        begun = threading.Event()
        posting.append(threading.Thread(target=lambda line=line, begun=begun: codes.append(post(line, begun))))
        posting[-1].start()
        begun.wait(30)
    for one in posting:
        one.join()
    sys.exit(1 if len(codes) < len(posting) else max(codes, default=0))


LINES = (line.rstrip("\n") for line in sys.stdin)
{"websocket": over_websocket, "http": over_http}[KIND](LINES)
