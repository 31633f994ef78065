"""Chromium without a window, spoken to through a pipe (the DevTools protocol): no driver, no port.

Pages are read from disk; the browser reaches no network.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 60  # for an answer
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def installed():
    """The browser's program, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page at a time; what it writes to its console is kept in `said`."""

    def __init__(self, profile):
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4
        hand_over = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", hand_over, "bash", installed(), *FLAGS, f"--user-data-dir={profile}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(theirs_in, theirs_out),
        )  # fmt: skip
        os.close(theirs_in), os.close(theirs_out)
        self._buffer, self._count, self._session, self.said = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """The answer to a command; events that come before it are looked at."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._count:
            self._note(answer)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _read(self):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], SECONDS)
            assert ready, "the browser does not answer"
            more = os.read(self._in, 2**20)
            assert more, "the browser is gone"
            self._buffer += more
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event):
        method, about = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.said.append(about["args"])
        elif method == "Runtime.exceptionThrown":
            self.said.append(about["exceptionDetails"])
        elif method == "Log.entryAdded":
            self.said.append(about["entry"])

    def open(self, path, width=1100, height=900, scheme="light", media="", phone=False):
        """The page at a path, of a size, in a colour scheme, as printed if media is print."""
        self.said.clear()
        scale = 2 if phone else 1
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=phone)  # fmt: skip
        dark = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=dark)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        for _ in range(600):  # no promises: scripts may be switched off
            if self.value("document.readyState") == "complete":
                return
            time.sleep(0.05)
        raise TimeoutError(path)

    def value(self, script):
        """What an expression is, in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def box(self, selector):
        """Left, top, width and height of the first element that is shown, scrolled into view."""
        return self.value(
            f"(() => {{ const e = [...document.querySelectorAll({json.dumps(selector)})]"
            ".find(e => e.getClientRects().length); e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector):
        left, top, width, height = self.box(selector)
        x, y = left + width / 2, top + height / 2
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def picture(self, path=None, selector=None, whole=False):
        """A PNG of the page or of an element, as bytes; also written to `path`."""
        more = {}
        if selector:
            left, top, width, height = self.box(selector)
            scroll = self.value("[scrollX, scrollY]")
            more["clip"] = {"x": left + scroll[0], "y": top + scroll[1], "width": width,
                            "height": height, "scale": 1}  # fmt: skip
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole or bool(selector),
                         **more)  # fmt: skip
        content = base64.b64decode(shot["data"])
        if path:
            Path(path).write_bytes(content)
        return content

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self):
        os.close(self._out)
        self.process.terminate()
        self.process.wait(timeout=20)
        os.close(self._in)
