"""Errors of a local cluster; every message says what to do or shows the log.

ClusterError          could not be started, reached or changed
  ├─ CommandFailedError    kubectl or helm said no, which may be what a test wants to see
  └─ MissingPackagesError  Debian packages are missing, and cannot be installed here
"""

from __future__ import annotations

from collections.abc import Sequence


class ClusterError(Exception):
    """A cluster could not be started, reached or changed."""


class MissingPackagesError(ClusterError):
    """Debian packages are missing, and installing them takes root on Debian."""


class CommandFailedError(ClusterError):
    """A command ended with an error; the message is what it printed."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        super().__init__(f"{' '.join(command)}: {output.strip()}")
        self.output = output
