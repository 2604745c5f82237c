"""Progress posts to the operator, over HTTPS and at most every 15 seconds.

The pod's projected token authenticates the post; it is read each time because the kubelet
replaces it. A report that cannot be delivered is logged and never stops the run.
"""

import json
import logging
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from hetrl_core.launch import MAX_PROGRESS_BYTES, JobIdentity, ProgressTarget

log = logging.getLogger(__name__)

POST_SECONDS = 15.0
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)


class ProgressPost:
    """Posts progress to one target, no more often than it may."""

    def __init__(self, target: ProgressTarget, job: JobIdentity) -> None:
        self._target = target
        self._job = {"namespace": job.namespace, "name": job.name, "uid": job.uid}
        self._posted_at = -POST_SECONDS

    @property
    def wait_seconds(self) -> float:
        """How long until the next report may be sent."""
        return max(0.0, self._posted_at + POST_SECONDS - time.monotonic())

    async def post(self, progress: Mapping[str, Any]) -> bool:
        """Send a report; tell whether the operator took it."""
        self._posted_at = time.monotonic()
        try:
            token = Path(self._target.token_file).read_text().strip()
            trust = ssl.create_default_context(cafile=self._target.ca_file)
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.post(
                    self._target.url,
                    data=_body({"job": self._job, **progress}),
                    headers={
                        "Authorization": f"Bearer {token}",
                        "Content-Type": "application/json",
                    },
                    ssl=trust,
                ) as reply,
            ):
                reply.raise_for_status()
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            log.warning("progress not delivered: url=%s error=%s", self._target.url, error)
            return False
        return True


def _body(report: Mapping[str, Any]) -> bytes:
    """Return a report as JSON, without its processes where they would make it too long."""
    body = json.dumps(report).encode()
    if len(body) > MAX_PROGRESS_BYTES:
        body = json.dumps({**report, "processes": []}).encode()
    return body
