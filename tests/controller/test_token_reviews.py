"""Reviews of tokens: which are refused unasked, and what a flood of them costs."""

import asyncio
import base64
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import pytest

from hetrl_operator.http.token_reviews import Caller, Refusal, Reviews
from hetrl_operator.kube.client import Reply

OURS = Caller(namespace="team", pod_uid="u-1")
USER = "system:serviceaccount:team:default"


def a_token(*, signature: str = "good", **changes: Any) -> str:
    claims = {
        "aud": ["hetrl-operator"],
        "exp": 2_000,
        "sub": USER,
        "kubernetes.io": {"pod": {"uid": "u-1"}},
        **changes,
    }
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.{signature}"


@dataclass
class ApiServer:
    """One that knows the signature `good`; it says what the pod's token says."""

    says_pod: str = "u-1"
    reviewed: list[str] = field(default_factory=list)

    async def request(self, _method: str, _path: str, *, body: Any) -> Reply:
        token = body["spec"]["token"]
        self.reviewed.append(token)
        await asyncio.sleep(0)
        user = {
            "username": USER,
            "extra": {"authentication.kubernetes.io/pod-uid": [self.says_pod]},
        }
        is_good = token.endswith(".good")
        status = {"authenticated": is_good, "user": user, "audiences": ["hetrl-operator"]}
        return Reply(status=201, body={"status": status})


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def some_reviews(api: ApiServer, clock: Clock | None = None) -> Reviews:
    return Reviews(api=api, clock=clock or Clock(), wall_clock=lambda: 1_000.0)  # type: ignore[arg-type]


async def said(reviews: Reviews, token: str) -> int:
    found = await reviews.caller(token, is_known=lambda claimed: claimed == OURS)
    return found.status if isinstance(found, Refusal) else HTTPStatus.NO_CONTENT


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("junk", 401),
        ("", 401),
        ("a.b.c", 401),
        ("a.!!!!.c", 401),
        (f"e30.{'A' * 20_000}.x", 401),
        (f"e30.{base64.urlsafe_b64encode(b'[' * 9_000).decode()}.x", 401),
        (f"e30.{base64.urlsafe_b64encode(b'[]').decode()}.x", 401),
        (a_token(aud="hetrl-operator-2"), 401),
        (a_token(aud=None), 401),
        (a_token(exp=999), 401),
        (a_token(exp="soon"), 401),
        (a_token(exp=float("nan")), 401),
        (a_token(sub="system:node:a"), 401),
        (a_token(sub=7), 401),
        (a_token(sub="system:serviceaccount:other:default"), 403),
        (a_token(**{"kubernetes.io": {"pod": {"uid": "u-2"}}}), 403),
        (a_token(**{"kubernetes.io": {"pod": {"uid": ["u-1"]}}}), 403),
        (a_token(**{"kubernetes.io": None}), 403),
    ],
)
async def test_token_is_refused_by_its_claims_without_a_review(token: str, status: int) -> None:
    api = ApiServer()
    assert await said(some_reviews(api), token) == status
    assert not api.reviewed


async def test_answer_of_a_review_is_kept_for_a_minute() -> None:
    api, clock = ApiServer(), Clock()
    reviews = some_reviews(api, clock)
    good, forged = a_token(), a_token(signature="forged")

    for seconds, count in ((0, 2), (59, 2), (60, 4)):
        clock.seconds = seconds
        assert (await said(reviews, good), await said(reviews, forged)) == (204, 401)
        assert len(api.reviewed) == count


async def test_claim_that_the_review_denies_is_refused() -> None:
    assert await said(some_reviews(ApiServer(says_pod="u-2")), a_token()) == 401


async def test_callers_with_one_token_share_a_review() -> None:
    api = ApiServer()
    reviews = some_reviews(api)

    answers = await asyncio.gather(*(said(reviews, a_token()) for _ in range(100)))

    assert (set(answers), len(api.reviewed)) == ({204}, 1)


async def test_flood_of_forged_tokens_costs_few_reviews() -> None:
    api, clock = ApiServer(), Clock()
    reviews = some_reviews(api, clock)
    assert await said(reviews, a_token()) == 204
    api.reviewed.clear()

    flood = (a_token(signature=f"forged-{number}") for number in range(10_000))
    answers = await asyncio.gather(*(said(reviews, each) for each in flood))

    assert set(answers) == {401, 429}
    assert len(api.reviewed) <= 60
    # The pod's own token is reviewed again where its answer is old, whatever others spend.
    clock.seconds = 61
    assert await said(reviews, a_token()) == 204


async def test_caches_of_a_long_flood_stay_small() -> None:
    api, clock = ApiServer(), Clock()
    reviews = some_reviews(api, clock)

    for number in range(200):
        clock.seconds = 100 * number
        await said(reviews, a_token(signature=f"forged-{number}"))

    assert len(api.reviewed) == 200
    assert len(reviews._spent) == 1
    assert not reviews._running
