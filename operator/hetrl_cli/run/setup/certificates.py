"""The certificates of a run, as files that only its owner can read."""

import os
from datetime import UTC, datetime
from pathlib import Path

from hetrl_operator.render.tls import issue

_OWNER_ONLY = 0o600


def write_certificates(folder: Path, *, job: str) -> None:
    """Issue an authority and a certificate for each role, in place of earlier ones."""
    identity = issue(seed=os.urandom(32), job=job, dns_names=(), now=datetime.now(UTC))
    for name, content in identity.files().items():
        path = folder / name
        path.unlink(missing_ok=True)
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "wb"
        ) as file:
            file.write(content)
