"""A headless Chromium for tests, driven by its DevTools protocol over a WebSocket."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import connect

from tests.broker.processes import PLAIN

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page of a browser that knows no other address than those that it is told."""

    def __init__(self, width: int = 1280, height: int = 1600, dark: bool = False) -> None:
        assert CHROMIUM is not None
        self._profile = tempfile.mkdtemp(prefix="whimbrel-chromium-")
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
        self._process = subprocess.Popen(
            [CHROMIUM, *flags, "--disable-dev-shm-usage", f"--user-data-dir={self._profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._profile},
        )
        self.problems: list[str] = []  # what the console was told
        self._number = 0
        self._closing = ExitStack()
        self._closing.callback(shutil.rmtree, self._profile, ignore_errors=True)
        self._closing.callback(self._process.wait)
        self._closing.callback(self._process.kill)
        try:
            self._socket = self._closing.enter_context(
                connect(self._page_url(), max_size=64 << 20, ping_interval=None, proxy=None)
            )
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.send(f"{domain}.enable")
            self.resize(width, height)
            if dark:
                scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
                self.send("Emulation.setEmulatedMedia", features=scheme)
        except BaseException:
            self.close()
            raise

    def _page_url(self) -> str:
        port_file = Path(self._profile, "DevToolsActivePort")
        deadline = time.monotonic() + 60
        while not (port_file.exists() and port_file.read_text().strip()):
            assert self._process.poll() is None and time.monotonic() < deadline, "expected Chromium to start"
            time.sleep(0.05)
        port = port_file.read_text().split()[0]
        while True:
            pages = httpx.get(f"http://127.0.0.1:{port}/json", **PLAIN, timeout=30).json()
            found = [page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page"]
            if found:
                return str(found[0])
            time.sleep(0.05)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; what the console says meanwhile is kept."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            told = json.loads(self._socket.recv(timeout=60))
            if told.get("id") == self._number:
                assert "error" not in told, told
                return dict(told["result"])
            if told.get("method") == "Runtime.exceptionThrown":
                self.problems.append(told["params"]["exceptionDetails"].get("exception", {}).get("description", "?"))
            if told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.problems.append(told["params"]["entry"]["text"] + " " + told["params"]["entry"].get("url", ""))

    def resize(self, width: int, height: int) -> None:
        """Be a screen of that size."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def go(self, url: str) -> None:
        """Open an address."""
        self.problems.clear()
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.querySelector('main') !== null")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 60) -> Any:
        """Wait until a JavaScript expression is true, and return it."""
        deadline = time.monotonic() + seconds
        while not (found := self.run(script)):
            assert time.monotonic() < deadline, f"waited in vain for {script}; the console says {self.problems}"
            time.sleep(0.05)
        return found

    def type(self, selector: str, text: str) -> None:
        """Write a text into a field, as keys do."""
        self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.focus(); e.select(); }})()")
        self.send("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click an element."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def picture(self, path: Path, whole: bool = True) -> None:
        """Save what the page looks like."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """End the browser."""
        self._closing.close()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
