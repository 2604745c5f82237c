"""Missed deletions: objects that were deleted while their watch restarted."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from hetrl_operator.cache import missed_deletes as census_module
from hetrl_operator.cache.informer_cache import InformerCache
from hetrl_operator.cache.missed_deletes import MissedDeletes
from hetrl_operator.cache.pending_writes import Place
from hetrl_operator.kube.client import KubernetesApi, Reply
from tests.controller.values import a_job_object

POD: Place = ("Pod", "a", "sums-trainer-0")


@dataclass
class Names:
    """Lists of names, in pages of one."""

    names: list[str]
    version: int = 100
    fails_first: bool = False
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    async def request(self, _: str, path: str, *, query: Mapping[str, str], accept: str) -> Reply:
        assert "PartialObjectMetadataList" in accept
        self.asked.append((path, query))
        if self.fails_first and len(self.asked) == 1:
            return Reply(status=500, body={})
        at = int(query.get("continue", 0))
        items = [{"metadata": {"namespace": "a", "name": name}} for name in self.names[at : at + 1]]
        more = str(at + 1) if at + 1 < len(self.names) else ""
        metadata = {"continue": more, "resourceVersion": str(self.version)}
        return Reply(status=200, body={"metadata": metadata, "items": items})


@dataclass(frozen=True)
class Named:
    name: str


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census_module, "SETTLE_SECONDS", 0.01)


def views_with(*pods: str) -> InformerCache:
    return InformerCache(
        jobs={},
        plans={},
        pods={("a", "sums"): [Named(name) for name in pods]},
        children={},
        node_index={},
        topology_index={},
    )


async def left_of(cache: InformerCache, api: Names, *events: str | None) -> list[Place]:
    """Feed these events of one pod to the check, and return the deletions that it found."""
    deleted: list[Place] = []
    missed_deletes = MissedDeletes(
        api=cast("KubernetesApi", api), cache=cache, namespaces=("a",), on_deleted=deleted.append
    )
    for type_ in events:
        missed_deletes.record_event(POD, type_)
    working = asyncio.create_task(missed_deletes.work())
    await asyncio.sleep(0.2)
    working.cancel()
    return deleted


async def test_object_that_is_in_no_list_any_more_is_gone() -> None:
    cache, api = views_with("sums-trainer-0", "sums-trainer-1"), Names(["sums-trainer-0"])

    deleted = await left_of(cache, api, None, None)

    assert deleted == [("Pod", "a", "sums-trainer-1")]
    assert cache.places("Pod") == {POD}
    assert api.asked[0][0] == "/api/v1/namespaces/a/pods"


async def test_missed_delete_is_assumed_only_after_every_page() -> None:
    names = [f"sums-rollout-{number}" for number in range(5)]

    assert await left_of(views_with(*names), Names(names), None, None) == []


async def test_first_list_is_believed() -> None:
    api = Names([])

    assert await left_of(views_with("sums-trainer-0"), api, None, "MODIFIED") == []
    assert api.asked == []


async def test_unresponsive_api_server_proves_no_missed_delete() -> None:
    api = Names([], fails_first=True)

    assert await left_of(views_with("sums-trainer-0"), api, None, None) == [POD]
    assert len(api.asked) >= 2


async def test_object_that_is_recreated_during_a_check_is_not_gone() -> None:
    cache, deleted = views_with("sums-trainer-0"), list[Place]()

    class Slow(Names):
        async def request(
            self, _: str, path: str, *, query: Mapping[str, str], accept: str
        ) -> Reply:
            missed_deletes.record_event(POD, "ADDED")
            return await super().request(_, path, query=query, accept=accept)

    missed_deletes = MissedDeletes(
        api=cast("KubernetesApi", Slow([])),
        cache=cache,
        namespaces=(),
        on_deleted=deleted.append,
    )
    await missed_deletes._check("Pod")

    assert deleted == []
    assert cache.places("Pod") == {POD}


@pytest.mark.parametrize(("of_list", "deleted"), [(99, []), (100, [POD])])
async def test_list_older_than_the_watch_proves_no_missed_delete(
    of_list: int, deleted: list[Place]
) -> None:
    cache = views_with("sums-trainer-0")
    cache.pending_writes.shown(POD, resource_version="100", is_deleted=False)

    assert await left_of(cache, Names([], version=of_list), None, None) == deleted


async def test_object_that_comes_back_is_seen_again() -> None:
    cache = views_with("sums-trainer-0")
    cache.gone.add(POD)
    missed_deletes = MissedDeletes(
        api=cast("KubernetesApi", Names([])), cache=cache, namespaces=(), on_deleted=lambda _: None
    )

    missed_deletes.record_event(POD, "ADDED")

    assert cache.places("Pod") == {POD}


def test_deleted_job_is_no_job() -> None:
    cache = InformerCache(
        jobs={("a", "sums"): [a_job_object()]},
        plans={},
        pods={},
        children={},
        node_index={},
        topology_index={},
    )
    cache.gone.add(("HetRLJob", "a", "sums"))

    assert cache.job(("a", "sums")) is None
    assert list(cache.all_jobs()) == []
