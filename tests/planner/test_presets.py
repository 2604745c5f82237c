import json
from itertools import combinations

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from hetrl_cli.main import hetrl
from hetrl_core.cluster import ClusterSnapshot
from hetrl_planner.presets.dtfm import CASES, NUM_GPUS
from hetrl_planner.presets.fleets import FLEETS, UnknownPreset, preset
from hetrl_planner.presets.regions import DELAY_MS_AND_GBPS, REGIONS, ten_regions

GIGABIT = 1e9 / 8
QWEN3_8B = {
    "hiddenSize": 4096, "layers": 36, "queryHeads": 32, "kvHeads": 8, "headDim": 128,
    "ffnSize": 12288, "vocabSize": 151936, "tiedEmbeddings": False, "queryKeyNorm": True,
}  # fmt: skip
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


def test_every_two_of_the_ten_regions_are_linked() -> None:
    pairs = {frozenset(pair) for pair in combinations(REGIONS, 2)}
    assert DELAY_MS_AND_GBPS.keys() == pairs
    assert {frozenset((link.source, link.target)) for link in ten_regions()} == pairs


@pytest.mark.parametrize(
    ("one", "other", "figures"),
    [
        ("Oregon", "Virginia", (67, 0.79)), ("Ohio", "Ireland", (77, 1.14)),
        ("Seoul", "Singapore", (74, 1.14)), ("Sydney", "Ireland", (254, 0.344)),
        ("Frankfurt", "Ireland", (24, 1.08)), ("Tokyo", "Ireland", (199, 0.465)),
    ],
)  # fmt: skip
def test_a_pair_of_regions_has_the_published_figures(
    one: str, other: str, figures: tuple[float, float]
) -> None:
    assert DELAY_MS_AND_GBPS[frozenset((one, other))] == figures


def test_a_link_takes_half_of_the_round_trip() -> None:
    link = next(each for each in ten_regions(egress_dollars_per_gib=0.5) if
                (each.source, each.target) == ("Oregon", "Ohio"))  # fmt: skip
    assert link.latency_seconds == pytest.approx(0.0245)
    assert link.bytes_per_second == pytest.approx(1.10 * GIGABIT)
    assert link.egress_dollars_per_gib == 0.5


@pytest.mark.parametrize("name", FLEETS)
def test_each_preset_has_the_paper_fleet_in_machines_of_eight(name: str) -> None:
    fleet = found(name)
    counts = dict.fromkeys(PAPER_FLEET, 0)
    for machine in fleet.machines:
        assert machine.num_gpus == 8
        counts[machine.gpu_kind] += machine.num_gpus
    assert counts == PAPER_FLEET


@pytest.mark.parametrize("name", FLEETS)
def test_each_preset_says_every_link_itself(name: str) -> None:
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


def test_a_single_region_has_no_links_across() -> None:
    assert across(found("single-region")) == []


def ask(topology: str, **resources: object) -> Result:
    job = {
        "apiVersion": "hetrl.dev/v1alpha1", "kind": "HetRLJob", "metadata": {"name": "math"},
        "spec": {
            "model": {"source": {"hub": "Qwen/Qwen3-8B"}, "architecture": QWEN3_8B},
            "data": {"prompts": {"path": "train.jsonl"}},
            "training": {"steps": 100},
            "planning": {"timeBudgetSeconds": 600},
            "resources": resources,
        },
    }  # fmt: skip
    arguments = ["plan", "-f", "-", "-t", topology, "-o", "json"]
    return CliRunner().invoke(hetrl, arguments, input=yaml.safe_dump(job))


def test_a_user_plans_for_a_preset_and_chooses_pools_in_it() -> None:
    result = ask("preset:single-region", pools=[{"name": "big", "gpuProduct": "A100-40GB"}])
    assert result.exit_code == 0, result.output
    assert {group["gpuKind"] for group in json.loads(result.stdout)["spec"]["groups"]} == {
        "A100-40GB"
    }


def test_a_user_who_asks_for_no_preset_of_ours_reads_which_there_are() -> None:
    result = ask("preset:mars")
    assert result.exit_code == 1
    assert "--topology: unknown preset 'mars'; there are single-region, " in result.stderr


def test_an_unknown_name_is_answered_by_the_list() -> None:
    assert preset("mars") == UnknownPreset(
        "unknown preset 'mars'; there are single-region, multi-region-hybrid, multi-country, "
        "multi-continent, ten-regions"
    )


# Gbit/s and milliseconds of GPUs 0-1 (neighbours) and of 0-63 and 31-32 (far apart).
@pytest.mark.parametrize(
    ("case", "classes", "gbps", "milliseconds"),
    [
        ("on-demand data center", 8, (100, 3.125, 3.125), (0, 0, 0)),
        ("spot data center", 9, (100, 1.25, 1.25), (0, 0, 0)),
        ("two sites", 2, (5, 1.12, 1.12), (1, 11, 11)),
        ("four US regions", 4, (2, 1.12, 1.25), (5, 11, 12)),
        ("eight world regions", 8, (2, 0.482, 1.10), (5, 124, 34)),
    ],
)
def test_dtfm_cases_have_the_published_links(
    case: str, classes: int, gbps: tuple[float, ...], milliseconds: tuple[float, ...]
) -> None:
    graph = CASES[case]()
    pairs = ([0, 0, 31], [1, 63, 32])
    assert len(graph) == NUM_GPUS
    assert len(np.unique(graph.class_of)) == classes
    assert graph.bytes_per_second[pairs] / GIGABIT == pytest.approx(gbps)
    assert graph.latency_seconds[pairs] * 1e3 == pytest.approx(milliseconds)
