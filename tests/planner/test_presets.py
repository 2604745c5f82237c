from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner

from hetrl_cli.main import hetrl
from hetrl_cli.topology_option import fleet_from
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import PoolSpec, ResourcesSpec
from hetrl_planner.presets.fleets import FLEETS, UnknownPreset, preset
from hetrl_planner.presets.regions import DELAY_MS_AND_GBPS, REGIONS, ten_regions

GIGABIT = 1e9 / 8
JOB = """
apiVersion: hetrl.dev/v1alpha1
kind: HetRLJob
metadata: {name: math}
spec:
  model: {source: {hub: Qwen/Qwen3-8B}}
  data: {prompts: {path: train.jsonl}}
  training: {steps: 100}
"""
PAPER_FLEET = {"A100-40GB": 24, "L40S": 24, "L4": 16}


def found(name: str) -> ClusterSnapshot:
    fleet = preset(name)
    assert isinstance(fleet, ClusterSnapshot)
    return fleet


def across(fleet: ClusterSnapshot) -> list[tuple[float, float]]:
    """One-way milliseconds and Gbit/s between each two regions that have machines."""
    regions = sorted({machine.region for machine in fleet.machines})
    links = [fleet.link(a, b) for n, a in enumerate(regions) for b in regions[:n]]
    return [(link.latency_seconds * 1e3, link.bytes_per_second / GIGABIT) for link in links]


def test_regions_are_linked_pairwise() -> None:
    pairs = {frozenset(pair) for pair in combinations(REGIONS, 2)}
    assert DELAY_MS_AND_GBPS.keys() == pairs
    assert {frozenset((link.source, link.target)) for link in ten_regions()} == pairs


@pytest.mark.parametrize(
    ("one", "other", "figures"),
    [
        ("Oregon", "Virginia", (67, 0.79)),
        ("Ohio", "Ireland", (77, 1.14)),
        ("Seoul", "Singapore", (74, 1.14)),
        ("Sydney", "Ireland", (254, 0.344)),
        ("Frankfurt", "Ireland", (24, 1.08)),
        ("Tokyo", "Ireland", (199, 0.465)),
    ],
)
def test_pair_of_regions_has_the_published_figures(
    one: str, other: str, figures: tuple[float, float]
) -> None:
    assert DELAY_MS_AND_GBPS[frozenset((one, other))] == figures


def test_link_takes_half_of_the_round_trip() -> None:
    link = next(
        each
        for each in ten_regions(egress_dollars_per_gib=0.5)
        if (each.source, each.target) == ("Oregon", "Ohio")
    )
    assert link.latency_seconds == pytest.approx(0.0245)
    assert link.bytes_per_second == pytest.approx(1.10 * GIGABIT)
    assert link.egress_dollars_per_gib == 0.5


@pytest.mark.parametrize("name", FLEETS)
def test_presets_have_the_paper_fleet_in_machines_of_eight(name: str) -> None:
    fleet = found(name)
    counts = dict.fromkeys(PAPER_FLEET, 0)
    for machine in fleet.machines:
        assert machine.num_gpus == 8
        counts[machine.gpu_kind] += machine.num_gpus
    assert counts == PAPER_FLEET


@pytest.mark.parametrize("name", FLEETS)
def test_presets_state_every_link(name: str) -> None:
    fleet = found(name)
    given = {frozenset((link.source, link.target)) for link in fleet.links}
    regions = {machine.region for machine in fleet.machines}
    assert {frozenset((a, b)) for a in regions for b in regions} <= given


@pytest.mark.parametrize(
    ("name", "milliseconds", "gbps"),
    [
        ("multi-region-hybrid", (10, 10), (1, 5)),
        ("multi-country", (5, 30), (2, 5)),
        ("multi-continent", (5, 60), (0.9, 5)),
    ],
)
def test_links_span_what_the_paper_says(
    name: str, milliseconds: tuple[float, float], gbps: tuple[float, float]
) -> None:
    latencies, bandwidths = zip(*across(found(name)), strict=True)
    assert (min(latencies), max(latencies)) == pytest.approx(milliseconds)
    assert (min(bandwidths), max(bandwidths)) == pytest.approx(gbps)


def test_single_region_has_no_links_across() -> None:
    assert across(found("single-region")) == []


def test_pools_choose_machines_of_a_preset_by_product_and_region() -> None:
    pools = (
        PoolSpec(name="big", gpu_product="NVIDIA-A100-SXM4-40GB"),
        PoolSpec(name="edge", node_selector=(("topology.kubernetes.io/region", "edge"),)),
    )
    fleet = fleet_from(Path("preset:multi-region-hybrid")).snapshot(ResourcesSpec(pools=pools))
    assert [(machine.gpu_kind, machine.pool) for machine in fleet.machines] == [
        *[("A100-40GB", "big")] * 3,
        *[("L4", "edge")] * 2,
    ]


def test_unknown_preset_is_answered_with_the_list(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    result = CliRunner().invoke(hetrl, ["plan", "-f", str(job), "-t", "preset:mars"])
    assert result.exit_code == 1
    assert "--topology: unknown preset 'mars'; there are single-region, " in result.stderr


def test_unknown_name_is_answered_by_the_list() -> None:
    assert preset("mars") == UnknownPreset(
        "unknown preset 'mars'; there are single-region, multi-region-hybrid, multi-country, "
        "multi-continent, ten-regions"
    )
