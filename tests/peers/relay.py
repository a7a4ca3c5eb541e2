"""Stands between a buyer and a provider, and hands on what they say, byte by byte.

What the buyer says is kept in a file. Of what the provider says, no more than the first 100,000 bytes are handed on before
another file, if one is named, is longer than 20,000 bytes: then somebody else has been told something.

Its arguments are the two files, the second of which may be `-`, and the port of the provider, or the program that it is.
"""

import os
import socket
import subprocess
import sys
import threading
import time

LOG, OTHER, WHERE = sys.argv[1], sys.argv[2], sys.argv[3:]
FIRST, BEGUN = 100_000, 20_000
LOCK = threading.Lock()
handed_on = 0


def note(data):
    with LOCK, open(LOG, "ab") as log:
        log.write(data)


def hold(data):
    global handed_on
    with LOCK:
        handed_on += len(data)
        if OTHER == "-" or handed_on <= FIRST:
            return
    for _ in range(6000):
        if os.path.exists(OTHER) and os.path.getsize(OTHER) > BEGUN:
            return
        time.sleep(0.005)
    os._exit(1)


class Stream:
    """One who is spoken with."""

    def __init__(self, reader, writer, close):
        self.reader, self.writer, self.close = reader, writer, close

    def hand_on(self, see, other):
        try:
            while data := self.reader(1 << 16):
                see(data)
                other.writer(data)
            other.close()
        except OSError:
            pass


def over_pipes(reader, writer):
    def write(data):
        writer.write(data)
        writer.flush()

    return Stream(lambda size: os.read(reader.fileno(), size), write, writer.close)


def over_network(stream):
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Stream(stream.recv, stream.sendall, lambda: stream.shutdown(socket.SHUT_WR))


def relay(buyer, provider):
    threading.Thread(target=buyer.hand_on, args=(note, provider), daemon=True).start()
    provider.hand_on(hold, buyer)


def serve(listener):
    while True:
        buyer = over_network(listener.accept()[0])
        provider = over_network(socket.create_connection(("127.0.0.1", int(WHERE[0]))))
        threading.Thread(target=relay, args=(buyer, provider), daemon=True).start()


if WHERE[0].isdigit():
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listening.getsockname()[1], flush=True)
    serve(listening)
else:
    program = subprocess.Popen(WHERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    relay(over_pipes(sys.stdin.buffer, sys.stdout.buffer), over_pipes(program.stdout, program.stdin))
