"""WebSockets, as far as the peers need them, written from RFC 6455."""

import base64
import hashlib
import os
import struct

TEXT, CLOSE = 1, 8


def head(stream):
    """What comes up to an empty line, as a first line and headers by their names in lower case."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        piece = stream.recv(1)
        if not piece:
            break
        data += piece
    first, *rest = data.decode().split("\r\n")
    pairs = [line.split(":", 1) for line in rest if ":" in line]
    return first, {name.strip().lower(): value.strip() for name, value in pairs}


def connect(stream, host, headers):
    """Opens a WebSocket. Gives the status line."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = ["GET / HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
             f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *headers]
    stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    return head(stream)[0]


def accept(stream):
    """Lets a WebSocket be opened. Gives the headers."""
    _, headers = head(stream)
    key = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    answer = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
             f"Sec-WebSocket-Accept: {answer}"]
    stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    return headers


def frame(data, kind=TEXT, is_masked=False, size=None):
    """A whole message, which may claim to be of another size."""
    size = len(data) if size is None else size
    bit = 0x80 if is_masked else 0
    if size < 126:
        start = struct.pack("!BB", 0x80 | kind, bit | size)
    elif size < 1 << 16:
        start = struct.pack("!BBH", 0x80 | kind, bit | 126, size)
    else:
        start = struct.pack("!BBQ", 0x80 | kind, bit | 127, size)
    if not is_masked:
        return start + data
    mask = os.urandom(4)
    return start + mask + bytes(byte ^ mask[ix % 4] for ix, byte in enumerate(data))


def exactly(stream, size):
    data = b""
    while len(data) < size:
        piece = stream.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise EOFError
        data += piece
    return data


def receive(stream):
    """The next frame: its kind and what is in it."""
    first, second = exactly(stream, 2)
    size = second & 0x7F
    if size == 126:
        (size,) = struct.unpack("!H", exactly(stream, 2))
    elif size == 127:
        (size,) = struct.unpack("!Q", exactly(stream, 8))
    mask = exactly(stream, 4) if second & 0x80 else bytes(4)
    data = exactly(stream, size)
    return first & 0x0F, bytes(byte ^ mask[ix % 4] for ix, byte in enumerate(data))
