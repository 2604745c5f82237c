"""The endpoint for progress reports, with TLS and only for a job's own coordinator.

A report carries a service-account token for this audience only, bound to its pod. The API server
verifies it; this module checks that the pod is the job's coordinator.
"""

import json
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from hetrl_core.launch import MAX_PROGRESS_BYTES
from hetrl_operator.http.forward_to_leader import LeaderForwarder
from hetrl_operator.http.token_reviews import Refusal, Reviews
from hetrl_operator.model.observed import JobSeen, ProgressSeen
from hetrl_operator.model.parse import JobKey, progress_seen
from hetrl_operator.render.contract import progress_path

log = logging.getLogger(__name__)

_BEARER = "Bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The endpoint's web application."""

    reviews: Reviews
    job: Callable[[JobKey], JobSeen | None]
    coordinators: Callable[[JobSeen], frozenset[str]]
    """Returns the UIDs of the pods that may report for a job."""

    report: Callable[[JobKey, str, ProgressSeen], None]
    """Called with a job's key, its uid and its coordinator's report."""

    forwarder: LeaderForwarder | None = None
    """The forwarder to the leader; None: this is the only replica."""

    def application(self) -> web.Application:
        """Return the application with its one route."""
        application = web.Application(client_max_size=MAX_PROGRESS_BYTES)
        application.router.add_post(progress_path("{namespace}", "{name}"), self._take)
        return application

    async def _take(self, request: web.Request) -> web.Response:
        if self.forwarder and not self.forwarder.leads():
            return await self.forwarder.forward(request)
        key = (request.match_info["namespace"], request.match_info["name"])
        job = self.job(key)
        refusal = await self._refusal(request, key, job)
        if refusal or job is None:
            return refusal or _answer(HTTPStatus.NOT_FOUND, f"no HetRLJob {key[0]}/{key[1]}")
        try:
            said = json.loads(await request.read())
            progress = progress_seen(said, at=datetime.now(UTC))
        except (ValueError, RecursionError) as error:
            return _answer(HTTPStatus.BAD_REQUEST, str(error))
        self.report(key, job.uid, progress)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _refusal(
        self, request: web.Request, key: JobKey, job: JobSeen | None
    ) -> web.Response | None:
        header = request.headers.get("Authorization", "")
        if not header.startswith(_BEARER):
            return _answer(HTTPStatus.UNAUTHORIZED, "a bearer token is required")
        # Names come from the path, and logs must stay one line.
        place = ascii(f"{key[0]}/{key[1]}")
        mine = self.coordinators(job) if job else frozenset()
        caller = await self.reviews.caller(
            header.removeprefix(_BEARER),
            is_known=lambda claimed: claimed.namespace == key[0] and claimed.pod_uid in mine,
        )
        if isinstance(caller, Refusal):
            log.warning("report refused: job=%s status=%d %s", place, caller.status, caller.reason)
            return _answer(caller.status, caller.reason)
        return None


def server_tls(directory: Path) -> ssl.SSLContext:
    """Read our certificate from a folder with ``tls.crt`` and ``tls.key``."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context


def _answer(status: HTTPStatus, text: str) -> web.Response:
    return web.json_response({"message": text}, status=status)
