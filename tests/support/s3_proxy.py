"""An HTTP proxy before a server, that makes faults.

A GET of /-/KIND/COUNT/SEED decides about the next requests:
  error    the next COUNT are answered 503, without an effect
  lost     the next COUNT reach the server, and their answers do not come back
  cut      the answers of the next COUNT end in the middle
  expired  the next COUNT are answered 403 with the code ExpiredToken
  skewed   the next COUNT are answered 403 with the code RequestTimeTooSkewed
  moved    the next COUNT are answered 301 with the bucket's region, eu-north-1
  random   of the next COUNT, a third has one of the first three faults, drawn with SEED
  none     no faults
"""

import http.client
import http.server
import random
import socketserver
import threading

ANSWER = """<?xml version="1.0"?><Error><Code>{}</Code><Message>A fault for a test.</Message></Error>"""


class Faults:
    def __init__(self):
        self.lock = threading.Lock()
        self.kind, self.left, self.random = "none", 0, random.Random(0)

    def set(self, kind, count, seed):
        with self.lock:
            self.kind, self.left, self.random = kind, count, random.Random(seed)

    def next(self):
        with self.lock:
            if self.left == 0:
                return "none"
            self.left -= 1
            if self.kind != "random":
                return self.kind
            return self.random.choice(["error", "lost", "cut"] + 6 * ["none"])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, headers=()):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/-/"):
            kind, count, seed = self.path.split("/")[2:5]
            self.server.faults.set(kind, int(count), int(seed))
            return self.answer(200, b"")
        fault = self.server.faults.next()
        if fault == "error":
            return self.answer(503, ANSWER.format("SlowDown").encode())
        if fault == "expired":
            return self.answer(403, ANSWER.format("ExpiredToken").encode())
        if fault == "skewed":
            return self.answer(403, ANSWER.format("RequestTimeTooSkewed").encode())
        if fault == "moved":
            return self.answer(301, ANSWER.format("PermanentRedirect").encode(),
                               [("x-amz-bucket-region", "eu-north-1")])
        server = http.client.HTTPConnection(*self.server.below, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        server.request(self.command, self.path, body, headers)
        got = server.getresponse()
        content = got.read()
        server.close()
        if fault == "lost":
            self.close_connection = True
            return None
        kept = [(name, value) for name, value in got.getheaders()
                if name.lower() not in ("content-length", "transfer-encoding", "connection")]
        if fault != "cut" or self.command == "HEAD":
            if self.command == "HEAD":
                kept.append(("Content-Length", got.getheader("Content-Length", "0")))
                self.send_response_only(got.status)
                for name, value in kept:
                    self.send_header(name, value)
                return self.end_headers()
            return self.answer(got.status, content, kept)
        self.send_response_only(got.status)
        for name, value in kept:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) + 1))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True
        return None

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *args):
        pass  # A client that was killed.


def start(address, port):
    """Starts a proxy at the address, before the server at its port. Returns the port of the proxy."""
    server = Server((address, 0), Handler)
    server.below, server.faults = (address, port), Faults()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]
