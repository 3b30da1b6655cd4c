"""A stand-in for a model behind deploy/tour: OpenAI's streamed chat protocol, at the speed the prompt asks for.

    python3 deploy/tour-provider.py PORT

A prompt with the word "hang" is never answered, one with "slowly" gets a word every half second, any other one its
answer at once. What happens to each call goes to stdout, a line each: this is what the provider saw.
"""

import json
import select
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from socket import MSG_PEEK

CALLS = count(1)
WORDS = "a queue that lives in the database outlives the worker that serves it".split()


class Model(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        self.call = next(CALLS)
        self.say(f"began: {prompt}")
        try:
            self.answer(prompt)
        except ConnectionError:
            self.say("the caller hung up")

    def answer(self, prompt):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        if "hang" in prompt:
            self.pause(600)
        for word in ["(call", f"{self.call})", *WORDS]:
            if "slowly" in prompt:
                self.pause(0.4)
            self.send({"delta": {"content": word + " "}, "finish_reason": None})
        self.send({"delta": {}, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")
        self.say("answered whole")

    def send(self, choice):
        chunk = {"object": "chat.completion.chunk", "model": "tour", "choices": [{"index": 0, **choice}]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def pause(self, seconds):
        """Waits; a caller that hangs up ends the wait."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.connection], [], [], left)[0] and not self.connection.recv(1, MSG_PEEK):
                raise ConnectionResetError

    def say(self, what):
        print(f"call {self.call} {what}", flush=True)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Model).serve_forever()
