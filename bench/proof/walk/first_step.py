"""A job's first trained step, as its status tells it."""

import os
import subprocess
import threading
import time

_ASKED = ("get", "hetrljob", "arithmetic", "-o", "jsonpath={.status.progress.step}")
_POLL_SECONDS = 0.2


class FirstStep:
    """Asks for the job's step from now on, beside what goes on."""

    def __init__(self, *, path: str, kubeconfig: str) -> None:
        """Begin, before the job is there."""
        self.seconds: float | None = None
        """From now until the status has a step; None as long as it has none."""

        self._environment = os.environ | {"PATH": path, "KUBECONFIG": kubeconfig}
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        started = time.monotonic()
        while self.seconds is None:
            done = subprocess.run(
                ["kubectl", *_ASKED],
                env=self._environment,
                check=False,
                capture_output=True,
                text=True,
            )
            if done.stdout not in {"", "0"}:
                self.seconds = time.monotonic() - started
            time.sleep(_POLL_SECONDS)
