"""`hetrl dashboard` as a user starts it, in a process of its own."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def dashboard(*arguments: str, kubeconfig: Path | None = None) -> Iterator[str]:
    """Yield its address for as long as the context lives; it must end well."""
    environment = {"KUBECONFIG": str(kubeconfig)} if kubeconfig else {}
    hetrl = Path(sys.executable).with_name("hetrl")
    process = subprocess.Popen(
        [hetrl, "dashboard", "--port=0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    try:
        assert process.stdout
        assert process.stderr
        line = process.stdout.readline()
        # Before it stands where the figures are from, which may be an address as well.
        found = re.search(r"http://127\.0\.0\.1:\d+$", line.strip())
        assert found, line + process.stderr.read()
        yield found[0]
    finally:
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert not said
