"""The endpoint for progress reports, with TLS and only for a job's own coordinator.

A report carries a service-account token for this audience only, bound to its pod. The API server
verifies it; this module checks that the pod is the job's coordinator.
"""

import json
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from hetrl_core.launch import MAX_PROGRESS_BYTES
from hetrl_core.task import Role
from hetrl_operator.http.forward_to_leader import LeaderForwarder
from hetrl_operator.kube.client import KubernetesApi
from hetrl_operator.model.observed import JobSeen, PodSeen, ProgressSeen
from hetrl_operator.model.parse import JobKey, progress_seen
from hetrl_operator.render.contract import progress_path
from hetrl_operator.render.volumes import TOKEN_AUDIENCE

log = logging.getLogger(__name__)

TRUSTED_SECONDS = 60.0
"""Time for which the review of a token is cached."""

_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_BEARER = "Bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The owner of a token."""

    namespace: str
    pod_uid: str


@dataclass(slots=True)
class Reviews:
    """The API server's reviews of tokens, cached for a minute."""

    api: KubernetesApi
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, tuple[float, Caller]] = field(default_factory=dict)

    async def caller(self, token: str) -> Caller | None:
        """Return the owner of a token; None if the token is not valid for us."""
        digest = sha256(token.encode()).hexdigest()
        now = self.clock()
        self._known = {key: each for key, each in self._known.items() if each[0] > now}
        if digest in self._known:
            return self._known[digest][1]
        found = await self._review(token)
        if found:
            self._known[digest] = (now + TRUSTED_SECONDS, found)
        return found

    async def _review(self, token: str) -> Caller | None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [TOKEN_AUDIENCE]},
        }
        reply = await self.api.request("POST", _REVIEWS, body=body)
        status = reply.body.get("status") or {}
        if not reply.is_success or not status.get("authenticated"):
            return None
        if TOKEN_AUDIENCE not in (status.get("audiences") or ()):
            return None
        user = status.get("user") or {}
        pod_uid = next(iter((user.get("extra") or {}).get(_POD_UID) or ()), "")
        parts = str(user.get("username", "")).split(":")
        if parts[:2] != ["system", "serviceaccount"] or len(parts) != 4:  # noqa: PLR2004
            return None
        return Caller(namespace=parts[2], pod_uid=pod_uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The endpoint's web application."""

    reviews: Reviews
    job: Callable[[JobKey], JobSeen | None]
    pods: Callable[[JobSeen], tuple[PodSeen, ...]]
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
        except ValueError as error:
            return _answer(HTTPStatus.BAD_REQUEST, str(error))
        self.report(key, job.uid, progress)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _refusal(
        self, request: web.Request, key: JobKey, job: JobSeen | None
    ) -> web.Response | None:
        header = request.headers.get("Authorization", "")
        if not header.startswith(_BEARER):
            return _answer(HTTPStatus.UNAUTHORIZED, "a bearer token is required")
        caller = await self.reviews.caller(header.removeprefix(_BEARER))
        if caller is None:
            return _answer(HTTPStatus.UNAUTHORIZED, f"not a token for audience {TOKEN_AUDIENCE}")
        ours = job is not None and any(
            pod.role is Role.COORDINATOR and pod.uid == caller.pod_uid for pod in self.pods(job)
        )
        if caller.namespace != key[0] or not ours:
            log.warning("report refused: job=%s/%s pod_uid=%s", *key, caller.pod_uid)
            return _answer(HTTPStatus.FORBIDDEN, "only the job's own coordinator may report")
        return None


def server_tls(directory: Path) -> ssl.SSLContext:
    """Read our certificate from a folder with ``tls.crt`` and ``tls.key``."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context


def _answer(status: HTTPStatus, text: str) -> web.Response:
    return web.json_response({"message": text}, status=status)
