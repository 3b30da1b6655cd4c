"""Serves a model with the llama.cpp server inside the PyPI package xllamacpp.

serve-model.py MODEL --port PORT --alias NAME

For machines whose processor lacks instructions that the usual llama-server was compiled with.
"""

import argparse
import signal

import xllamacpp

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--alias", required=True)
options = parser.parse_args()

params = xllamacpp.CommonParams()
params.hostnames = ["127.0.0.1"]
params.port = options.port
params.model.path = options.model
params.model_alias = {options.alias}
params.n_ctx = 2048
params.n_parallel = 2
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
# The server runs on threads of its own.
signal.sigwait({signal.SIGTERM, signal.SIGINT})
