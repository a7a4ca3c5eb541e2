"""Serves a model by llama.cpp on a free port of this machine, until it is told to end: llama_server.py MODEL.gguf

The first line it prints is its address.
"""

import os
import signal
import sys

import xllamacpp

settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.hostnames = ["127.0.0.1"]
settings.port = 0
settings.n_ctx = 32768
settings.n_parallel = 4
settings.use_jinja = True
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
# Its threads have nothing to save.
os._exit(0)
