"""A web server of this process that misbehaves as told."""

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Files by their paths, and how they are served; `asked` are the requests that came."""

    def __init__(self):
        self.files = {}  # path -> bytes
        self.ranges = True  # does it know them?
        self.cuts = []  # bytes after which a connection ends, one for each request
        self.answers = []  # codes to answer with, one for each request
        self.moved = {}  # path -> where it is now
        self.types = {}  # path -> content type
        self.lengths = True  # does it say how long a file is?
        self.stall = None  # seconds to wait after a cut, with the connection open
        self.asked = []  # (path, Range)
        self.url = ""

    def answer(self, request):
        """Everything about one request."""
        path, asked = request.path, request.headers.get("Range")
        self.asked.append((path, asked))
        code = self.answers.pop(0) if self.answers else 200
        if path in self.moved:
            request.send_response(302)
            request.send_header("Location", self.moved[path])
            request.end_headers()
            return
        content = self.files.get(path.split("?")[0])
        if content is None or code != 200:
            request.send_error(404 if code == 200 else code)
            return
        start = 0
        if asked and self.ranges:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                request.send_response(416)
                request.send_header("Content-Range", f"bytes */{len(content)}")
                request.end_headers()
                return
        request.send_response(206 if asked and self.ranges else 200)
        if asked and self.ranges:
            end = f"bytes {start}-{len(content) - 1}/{len(content)}"
            request.send_header("Content-Range", end)
        request.send_header("Content-Type", self.types.get(path, "application/octet-stream"))
        if self.lengths:
            request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        cut = self.cuts.pop(0) if self.cuts else None
        request.wfile.write(content[start : None if cut is None else start + cut])
        request.wfile.flush()
        if cut is not None and self.stall:
            time.sleep(self.stall)


@contextmanager
def serving():
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.answer(self)

        def log_message(self, *_):
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            """A client that leaves early is no error here."""

    with Quiet(("127.0.0.1", 0), Handler) as listening:
        server.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
