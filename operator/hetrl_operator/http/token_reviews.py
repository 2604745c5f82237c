"""Reviews of callers' tokens by the API server, with budgets against floods of forged ones.

What a token claims costs nothing to read: one that claims another audience, an end in the past, or
a pod that is no known coordinator is refused without a review. What remains has one budget for each
pod that is claimed, and another for tokens that were valid before, so that a flood of forged tokens
keeps no coordinator waiting whose token is known.
"""

import asyncio
import base64
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from hetrl_operator.kube.client import KubernetesApi
from hetrl_operator.render.volumes import TOKEN_AUDIENCE

TRUSTED_SECONDS = 60.0
"""Time for which the review of a token is cached, whatever it said."""

FORGOTTEN_SECONDS = 3600.0
"""Time for which it is remembered that a token was valid: the kubelet replaces it by then."""

REVIEWS_AT_ONCE = 4
UNKNOWN_PER_POD = 2
"""Reviews of tokens that were not valid before, for each claimed pod in `TRUSTED_SECONDS`."""

MAX_TOKEN_CHARS = 16 * 1024
_MOST_CACHED = 10_000
_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_USER_PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The pod that a token is bound to."""

    namespace: str
    pod_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refused token: the HTTP status, and why."""

    status: HTTPStatus
    reason: str


_NOT_OURS = Refusal(
    status=HTTPStatus.UNAUTHORIZED, reason=f"not a token for audience {TOKEN_AUDIENCE}"
)
_BUSY = Refusal(
    status=HTTPStatus.TOO_MANY_REQUESTS, reason="too many tokens wait for their review; try again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reviewed:
    at: float
    caller: Caller | None


@dataclass(slots=True)
class Reviews:
    """The API server's reviews of tokens."""

    api: KubernetesApi
    """A connection that jobs' writes do not share."""

    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    _cached: OrderedDict[str, _Reviewed] = field(default_factory=OrderedDict)
    _valid_until: OrderedDict[str, float] = field(default_factory=OrderedDict)
    _spent: dict[str, list[float]] = field(default_factory=dict)
    _running: dict[str, asyncio.Task[Caller | None]] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(REVIEWS_AT_ONCE))

    async def caller(self, token: str, *, is_known: Callable[[Caller], bool]) -> Caller | Refusal:
        """Return the pod that a token is bound to, or why it is refused.

        Args:
            token: of an untrusted caller.
            is_known: tells whether a pod may report at all.
        """
        claimed = claimed_caller(token, now=self.wall_clock())
        if isinstance(claimed, Refusal):
            return claimed
        if not is_known(claimed):
            return Refusal(
                status=HTTPStatus.FORBIDDEN, reason="only the job's own coordinator may report"
            )
        digest, now = sha256(token.encode()).hexdigest(), self.clock()
        cached = self._cached.get(digest)
        if cached is None or now - cached.at >= TRUSTED_SECONDS:
            task = self._running.get(digest)
            if task is None:
                if not self._may_review(digest, claimed, now=now):
                    return _BUSY
                task = asyncio.create_task(self._reviewed(digest, token))
                self._running[digest] = task
            # One caller's disconnection must not end the review that others wait for.
            found = await asyncio.shield(task)
        else:
            found = cached.caller
        return found if found == claimed else _NOT_OURS

    def _may_review(self, digest: str, claimed: Caller, *, now: float) -> bool:
        if self._valid_until.get(digest, 0.0) > now:
            return True
        spent = [at for at in self._spent.get(claimed.pod_uid, ()) if now - at < TRUSTED_SECONDS]
        if len(spent) >= UNKNOWN_PER_POD:
            return False
        self._spent[claimed.pod_uid] = [*spent, now]
        return True

    async def _reviewed(self, digest: str, token: str) -> Caller | None:
        try:
            async with self._slots:
                found = await self._review(token)
        finally:
            del self._running[digest]
        now = self.clock()
        _remember(self._cached, digest, _Reviewed(at=now, caller=found))
        if found:
            _remember(self._valid_until, digest, now + FORGOTTEN_SECONDS)
            # A pod whose token is valid begins with a whole budget for the next one.
            self._spent.pop(found.pod_uid, None)
        self._spent = {
            uid: spent for uid, spent in self._spent.items() if now - spent[-1] < TRUSTED_SECONDS
        }
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
        return _caller(str(user.get("username", "")), pod_uid)


def claimed_caller(token: str, *, now: float) -> Caller | Refusal:
    """Return the pod that a token claims to be bound to, unverified, or why it cannot be ours."""
    claims = _claims(token)
    audiences = claims.get("aud")
    if TOKEN_AUDIENCE not in (audiences if isinstance(audiences, list) else (audiences,)):
        return _NOT_OURS
    expires_at = claims.get("exp")
    if not isinstance(expires_at, int | float) or not expires_at > now:
        return Refusal(status=HTTPStatus.UNAUTHORIZED, reason="the token has expired")
    bound = claims.get("kubernetes.io")
    pod = bound.get("pod") if isinstance(bound, dict) else None
    pod_uid = pod.get("uid") if isinstance(pod, dict) else None
    found = _caller(str(claims.get("sub", "")), pod_uid if isinstance(pod_uid, str) else "")
    return found or _NOT_OURS


def _claims(token: str) -> Mapping[str, Any]:
    """Return a token's claims; none where it is not a JSON Web Token."""
    parts = token.split(".")
    if len(token) > MAX_TOKEN_CHARS or len(parts) != 3:  # noqa: PLR2004  # RFC 7515
        return {}
    payload = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        found = json.loads(base64.urlsafe_b64decode(payload))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _caller(user: str, pod_uid: str) -> Caller | None:
    parts = user.split(":")
    if parts[:2] != ["system", "serviceaccount"] or len(parts) != _USER_PARTS:
        return None
    return Caller(namespace=parts[2], pod_uid=pod_uid)


def _remember(cache: OrderedDict[str, Any], digest: str, value: object) -> None:
    cache[digest] = value
    cache.move_to_end(digest)
    if len(cache) > _MOST_CACHED:
        cache.popitem(last=False)
