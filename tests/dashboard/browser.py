"""A real Chromium without a window, driven over its DevTools protocol.

Debian's, which `require_packages` installs where it may. Clicks and keys are the browser's own
events at points of the page, not calls of JavaScript.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from e2e.cluster.packages import BROWSER_PACKAGES, require_packages

_DEADLINE_SECONDS = 60.0
_POLL_SECONDS = 0.05


@dataclass(slots=True)
class Page:
    """One tab."""

    socket: aiohttp.ClientWebSocketResponse
    troubles: list[str] = field(default_factory=list)
    """Exceptions of the page's code, and what its console called an error."""

    requested: list[str] = field(default_factory=list)
    """Addresses that it fetched."""

    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol, taking note of what happens meanwhile."""
        number = next(self._numbers)
        await self.socket.send_json({"id": number, "method": method, "params": params})
        while True:
            said = await asyncio.wait_for(self.socket.receive_json(), _DEADLINE_SECONDS)
            if said.get("id") == number:
                assert "error" not in said, (method, said["error"])
                return dict(said["result"])
            self._note(said)

    def _note(self, said: dict[str, Any]) -> None:
        params = said.get("params", {})
        match said.get("method"):
            case "Runtime.exceptionThrown":
                self.troubles.append(json.dumps(params["exceptionDetails"])[:2000])
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.troubles.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Network.requestWillBeSent":
                self.requested.append(params["request"]["url"])

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)
        await self.wait("document.readyState === 'complete'")

    async def reload(self) -> None:
        """Load the page again, styles included; until then the old one would answer."""
        await self.ask("window.isOld = true")
        await self.call("Page.reload")
        await self.wait("!window.isOld && document.readyState === 'complete'")

    async def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, (expression, found)
        return found["result"].get("value")

    async def wait(self, expression: str) -> Any:
        """Ask until the answer is true, and return it."""
        ends_at = time.monotonic() + _DEADLINE_SECONDS
        while not (found := await self.ask(expression)):
            assert time.monotonic() < ends_at, (expression, self.troubles)
            await asyncio.sleep(_POLL_SECONDS)
        return found

    async def appears(self, selector: str) -> None:
        """Wait for an element."""
        await self.wait(f"!!document.querySelector({json.dumps(selector)})")

    async def place(self, selector: str, *, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
        """Return a point of an element, in shares of its size, after scrolling there."""
        box = await self.wait(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return;"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return b.width && [b.x, b.y, b.width, b.height] })()"
        )
        return box[0] + x * box[2], box[1] + y * box[3]

    async def hover(self, selector: str, *, x: float = 0.5, y: float = 0.5) -> None:
        at = await self.place(selector, x=x, y=y)
        await self._mouse("mouseMoved", at)

    async def click(self, selector: str) -> None:
        at = await self.place(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            await self._mouse(kind, at)

    async def choose(self, selector: str, text: str) -> None:
        """Focus a select and type what is to be chosen, as by keyboard."""
        await self.ask(f"document.querySelector({json.dumps(selector)}).focus()")
        for letter in text:
            await self.call("Input.dispatchKeyEvent", type="char", text=letter)

    async def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    async def look(self, *, width: int, height: int, dark: bool) -> None:
        """Choose the window's size and the system's colours."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def picture(self, path: Path) -> None:
        """Save what is in the window."""
        found = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    async def _mouse(self, kind: str, at: tuple[float, float]) -> None:
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        await self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **button)


@contextlib.asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Page]:
    """Run a browser with an empty profile for as long as the context lives."""
    require_packages(BROWSER_PACKAGES)
    profile = folder / "profile"
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "chromium",
                "--headless=new",
                "--remote-debugging-port=0",
                "--hide-scrollbars",
                "--no-first-run",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--password-store=basic",
                f"--user-data-dir={profile}",
                *(["--no-sandbox"] if os.geteuid() == 0 else []),
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        port = await _port(profile / "DevToolsActivePort", process, folder)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as reply:
                tabs = await reply.json()
            url = next(each["webSocketDebuggerUrl"] for each in tabs if each["type"] == "page")
            async with session.ws_connect(url, max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await page.call(f"{domain}.enable")
                yield page
    finally:
        # Its children write into the profile for a moment longer, unless they go as well.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)


async def _port(file: Path, process: "subprocess.Popen[bytes]", folder: Path) -> int:
    ends_at = time.monotonic() + _DEADLINE_SECONDS
    while not (file.exists() and "\n" in file.read_text()):
        log = (folder / "chromium.log").read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"chromium ended: {log}"
        assert time.monotonic() < ends_at, f"chromium does not listen: {log}"
        await asyncio.sleep(_POLL_SECONDS)
    return int(file.read_text().splitlines()[0])
