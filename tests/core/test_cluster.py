from dataclasses import replace
from typing import Any

import pytest

from hetrl_core.fleet.snapshot import (
    DEFAULT_ACROSS_REGIONS,
    DEFAULT_WITHIN_REGION,
    ClusterSnapshot,
    Link,
    Machine,
)
from tests.builders import a_fleet, a_kind, both

NAN = float("nan")


def a_link(source: str, target: str, **changes: float) -> Link:
    return Link(
        source=source,
        target=target,
        **({"bytes_per_second": 1e9, "latency_seconds": 0.01} | changes),
    )


def test_gpus_of_all_kinds_are_counted() -> None:
    assert a_fleet(a100=24, l40s=24, l4=16).num_gpus == 64


def test_link_works_both_ways() -> None:
    link = a_link("eu", "us")
    fleet = a_fleet(l4=8, links=(link,))
    assert fleet.link("eu", "us") == fleet.link("us", "eu") == link


def test_way_back_may_differ() -> None:
    there, back = a_link("eu", "us"), a_link("us", "eu", bytes_per_second=2e9)
    fleet = a_fleet(l4=8, links=(there, back))
    assert (fleet.link("eu", "us"), fleet.link("us", "eu")) == (there, back)


def test_undescribed_link_has_a_default() -> None:
    fleet = a_fleet(l4=8)
    assert fleet.link("eu", "eu") == DEFAULT_WITHIN_REGION
    assert fleet.link("eu", "us") == DEFAULT_ACROSS_REGIONS


def test_regions_without_a_link_are_named() -> None:
    fleets = [a_fleet(l4=1, region=region) for region in ("us", "asia", "eu")]
    fleet = both(*fleets, links=(a_link("eu", "us"), a_link("eu", "mars")))
    assert fleet.unlinked_regions == (("asia", "eu"), ("asia", "us"))
    assert fleets[0].unlinked_regions == ()


def test_kind_is_found_by_name() -> None:
    fleet = a_fleet(l4=8)
    assert fleet.kind("L4") == a_kind("L4")
    with pytest.raises(KeyError):
        fleet.kind("L40")


def test_machine_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="machine a: unknown GPU kind 'L40'"):
        ClusterSnapshot(
            gpu_kinds=(a_kind("L4"),),
            machines=(Machine(name="a", gpu_kind="L40", num_gpus=1),),
        )


def test_two_machines_of_one_name_are_refused() -> None:
    machine = Machine(name="a", gpu_kind="L4", num_gpus=1)
    with pytest.raises(ValueError, match="the same name"):
        ClusterSnapshot(gpu_kinds=(a_kind("L4"),), machines=(machine, machine))


def test_machine_without_gpus_is_refused() -> None:
    with pytest.raises(ValueError, match="machine a: num_gpus must be >= 1, got 0"):
        Machine(name="a", gpu_kind="L4", num_gpus=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"memory_bytes": 0}, "L4: memory_bytes must be > 0, got 0", id="memory"),
        pytest.param({"bf16_flops": -1.0}, "L4: bf16_flops must be > 0, got -1", id="flops"),
        pytest.param({"dollars_per_hour": -1.0}, "dollars_per_hour must be >= 0", id="price"),
        pytest.param(
            {"dollars_per_hour": NAN}, "dollars_per_hour must be >= 0, got nan", id="no price"
        ),
        pytest.param({"hbm_bytes_per_second": NAN}, "must be > 0, got nan", id="no bandwidth"),
        pytest.param({"compute_efficiency": 1.5}, r"must be in \(0, 1\], got 1.5", id="efficiency"),
    ],
)
def test_impossible_figures_of_a_kind_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(a_kind("L4"), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"bytes_per_second": 0.0}, "eu -> us: bandwidth must be > 0", id="bandwidth"),
        pytest.param({"latency_seconds": -1.0}, "eu -> us: latency must be >= 0", id="latency"),
        pytest.param({"bytes_per_second": NAN}, "bandwidth must be > 0, got nan", id="no number"),
        pytest.param(
            {"egress_dollars_per_gib": -1.0},
            "egress_dollars_per_gib must be >= 0, got -1",
            id="egress",
        ),
    ],
)
def test_impossible_links_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        a_link("eu", "us", **changes)
