"""The operator as a process that may die at any moment, and comes back as a container does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hetrl_cli.run.setup.ports import free_ports

STOP_SECONDS = 60.0


@dataclass(slots=True, kw_only=True)
class Operator:
    """One replica, kept alive by a thread until it is stopped."""

    kubeconfig: Path
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    metrics_port: int = field(default_factory=lambda: free_ports(1)[0])
    num_deaths: int = 0
    """Ends that `stop` did not ask for."""

    exit_codes: list[int] = field(default_factory=list)
    """Of those that were no kill of ours."""

    _process: subprocess.Popen[bytes] | None = None
    _keeper: threading.Thread | None = None
    _is_wanted: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start it, and start it again whenever it ends."""
        self._is_wanted = True
        self._process = self._spawn()
        self._keeper = threading.Thread(target=self._keep, name="operator-keeper")
        self._keeper.start()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it for good, and return its exit status."""
        assert self._process
        assert self._keeper
        with self._lock:
            self._is_wanted = False
            self._process.send_signal(how)
        self._keeper.join(timeout=STOP_SECONDS)
        return int(self._process.returncode)

    def kill(self) -> None:
        """Kill it, and return when it is dead; it comes back by itself."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        # Another lane may kill it at the same moment.
        with contextlib.suppress(ProcessLookupError):
            # A container's end takes all of its processes along, planners too.
            os.killpg(process.pid, signal.SIGKILL)
        while process.poll() is None:
            time.sleep(0.001)

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process
        return self._process.pid

    def is_ready(self) -> bool:
        """Ask it as the kubelet does."""
        return self._answers("readyz")

    def metrics(self) -> str:
        """Return what Prometheus would scrape."""
        with urllib.request.urlopen(self._url("metrics"), timeout=10) as reply:
            return str(reply.read().decode())

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(self._url(path), timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.metrics_port}/{path}"

    def _spawn(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "HETRL_IMAGE_TRAINER": "hetrl/trainer:test",
            "HETRL_IMAGE_ROLLOUT": "hetrl/rollout:test",
            "HETRL_METRICS_PORT": str(self.metrics_port),
            **self.environment,
        }
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "hetrl_operator"],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _keep(self) -> None:
        while True:
            assert self._process
            code = self._process.wait()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with self._lock:
                if not self._is_wanted:
                    return
                self.num_deaths += 1
                if code != -signal.SIGKILL:
                    self.exit_codes.append(code)
                self._process = self._spawn()
