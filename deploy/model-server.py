"""Serves the small real model on 127.0.0.1 with OpenAI's protocol; deploy/model prints how to start it.

The wheel that deploy/model unzips (see model-requirements.txt) holds llama.cpp's own server as a Python module.
"""

import argparse
import json
import signal
import urllib.request

import xllamacpp


def main():
    options = argparse.ArgumentParser()
    options.add_argument("-m", dest="model", required=True)
    options.add_argument("--alias", required=True)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--try", dest="once", action="store_true", help="answer one prompt and exit")
    options = options.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.model_alias = {options.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    # One thread and two slots of 1,024 tokens: the machine is shared with the database, and two jobs may run at once.
    params.n_ctx = 2048
    params.n_parallel = 2
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # The server runs in threads of its own; SIGTERM must end the process at once, whatever they do.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    server = xllamacpp.Server(params)
    print("serving at", server.listening_address, flush=True)
    if options.once:
        # Only a real answer proves that this processor has the instructions the wheel was compiled for.
        prompt = {"max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
        url = server.listening_address + "/v1/chat/completions"
        with urllib.request.urlopen(url, json.dumps(prompt).encode(), timeout=60) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]
    signal.pause()


main()
