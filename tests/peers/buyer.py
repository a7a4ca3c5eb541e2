"""An ACMP buyer over a WebSocket, written from the specifications: RFC 6455, JSON-RPC and ACMP.

Reads messages, one JSON object a line, and prints what comes back, until as many answers have come as were asked for.
"""

import base64
import json
import os
import socket
import struct
import sys

HOST, PORT, TOKEN = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def connect():
    stream = socket.create_connection((HOST, PORT), timeout=30)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [f"GET / HTTP/1.1", f"Host: {HOST}:{PORT}", "Upgrade: websocket", "Connection: Upgrade",
             f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
    if TOKEN != "-":
        lines.append(f"Authorization: Bearer {TOKEN}")
    stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = stream.recv(1)
        if not piece:
            break
        head += piece
    status = head.split(b"\r\n")[0].decode()
    if " 101 " not in status:
        print(status)
        sys.exit(1)
    return stream


def send(stream, text):
    data = text.encode()
    mask = os.urandom(4)
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x81, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x81, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x81, 0x80 | 127, size)
    stream.sendall(head + mask + bytes(byte ^ mask[ix % 4] for ix, byte in enumerate(data)))


def exactly(stream, size):
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            sys.exit("closed")
        data += piece
    return data


def receive(stream):
    first, second = exactly(stream, 2)
    size = second & 0x7F
    if size == 126:
        (size,) = struct.unpack("!H", exactly(stream, 2))
    elif size == 127:
        (size,) = struct.unpack("!Q", exactly(stream, 8))
    return first & 0x0F, exactly(stream, size)


stream = connect()
wanted = 0
for line in sys.stdin:
    send(stream, line.rstrip("\n"))
    try:
        message = json.loads(line)
        wanted += 1 if not isinstance(message, dict) or "id" in message else 0
    except ValueError:
        wanted += 1
while wanted:
    kind, data = receive(stream)
    if kind == 8:
        sys.exit("closed")
    if kind != 1:
        continue
    message = json.loads(data)
    if "id" in message:
        wanted -= 1
    print(json.dumps(message))
