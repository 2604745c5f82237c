"""Refusals of ``hetrl plan`` for invalid jobs and fleets: one reason, no traceback."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetrl_cli.main import hetrl
from tests.cli.test_plan import SMALL_CONFIG, SMALL_MODEL

POOLS = [
    {"name": "a100", "gpuKind": "A100-80GB", "machines": 1, "gpusPerMachine": 2},
    {"name": "l4", "gpuKind": "L4", "machines": 1, "gpusPerMachine": 2},
]


def ask(
    folder: Path,
    spec: Mapping[str, Any],
    *,
    topology: Mapping[str, Any] | None = None,
    output: str = "table",
) -> Result:
    job = {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLJob",
        "metadata": {"name": "math"},
        "spec": {
            "model": SMALL_MODEL,
            "data": {"prompts": {"path": "train.jsonl"}},
            "training": {"steps": 100},
            "planning": {"strategy": "Homogeneous", "timeBudgetSeconds": 600},
            **spec,
        },
    }
    fleet = {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLTopology",
        "metadata": {"name": "fleet"},
        "spec": {"pools": POOLS, **(topology or {})},
    }
    paths = [folder / "job.yaml", folder / "fleet.yaml"]
    for path, manifest in zip(paths, (job, fleet), strict=True):
        path.write_text(yaml.safe_dump(manifest))
    return CliRunner().invoke(
        hetrl, ["plan", "-f", str(paths[0]), "-t", str(paths[1]), "-o", output]
    )


def is_refused(result: Result, *, exit_code: int, said: str) -> None:
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == exit_code, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert said in line


def data(**fields: object) -> dict[str, Any]:
    return {"data": {"prompts": {"path": "train.jsonl"}, **fields}}


def objective(**fields: object) -> dict[str, Any]:
    return {"planning": {"objective": fields}}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {"resources": {"budgetPerHour": -3}},
            "resources.budgetPerHour must be > 0.0, got -3",
            id="a negative budget",
        ),
        pytest.param(
            {"resources": {"budgetPerHour": float("nan")}},
            "must be a finite number, got nan",
            id="a budget that is no number",
        ),
        pytest.param(
            {"resources": {"maxGPUs": 0}}, "resources.maxGPUs must be >= 1, got 0", id="no GPUs"
        ),
        pytest.param(data(maxPromptTokens=0), "maxPromptTokens must be >= 1, got 0", id="prompt 0"),
        pytest.param(
            data(maxPromptTokens=-5), "maxPromptTokens must be >= 1, got -5", id="prompt -5"
        ),
        pytest.param(
            data(maxResponseTokens=0), "maxResponseTokens must be >= 1, got 0", id="response 0"
        ),
        pytest.param(
            data(maxResponseTokens=-1), "maxResponseTokens must be >= 1, got -1", id="response -1"
        ),
        pytest.param(
            data(maxResponseTokens=1.5),
            "maxResponseTokens must be a whole number, got 1.5",
            id="response 1.5",
        ),
        pytest.param(
            data(meanResponseTokens=0), "meanResponseTokens must be >= 1, got 0", id="mean 0"
        ),
        pytest.param(
            {"algorithm": {"maxStaleness": -1}},
            "algorithm.maxStaleness must be >= 0, got -1",
            id="bound -1",
        ),
        pytest.param(
            {"algorithm": {"maxStaleness": 0.5}},
            "maxStaleness must be a whole number, got 0.5",
            id="bound 0.5",
        ),
        pytest.param(
            objective(cost={"requiredSamplesPerSecond": 0}),
            "requiredSamplesPerSecond must be > 0.0, got 0",
            id="no pace",
        ),
        pytest.param(
            objective(deadline={"finishBefore": "2001-01-01T00:00:00Z"}),
            "finishBefore must lie in the future, got 2001-01-01",
            id="too late",
        ),
    ],
)
def test_value_out_of_range_is_named(tmp_path: Path, spec: dict[str, Any], said: str) -> None:
    is_refused(ask(tmp_path, spec), exit_code=1, said=said)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {"resources": {"budgetPerHour": 1}},
            "resources.budgetPerHour is 1.00 $/h; the cheapest plan found costs 1.60 $/h",
            id="too poor",
        ),
        pytest.param(
            {
                "resources": {"budgetPerHour": 5},
                **objective(cost={"requiredSamplesPerSecond": 1e6}),
            },
            "asks for 1000000.00 samples/s; the fastest plan found within the limits makes",
            id="budget against pace",
        ),
        pytest.param(
            {"resources": {"maxGPUs": 2}, "rollout": {"minReplicas": 3}},
            "resources.maxGPUs is 2; the smallest plan found takes 4 GPUs",
            id="GPUs against rollouts",
        ),
        pytest.param(
            {"resources": {"pools": [{"name": "p", "gpuProduct": "L4", "maxGPUs": 1}]}},
            "resources.pools limit the GPUs of p (1)",
            id="a pool against the tasks",
        ),
        pytest.param(
            {"resources": {"pools": [{"name": "p", "gpuProduct": "B9000"}]}},
            "pool p: no machine with GPU product B9000",
            id="an unknown kind",
        ),
        pytest.param(
            data(maxResponseTokens=10_000_000), "actor training needs 10.0 GiB", id="too long"
        ),
    ],
)
@pytest.mark.slow
def test_limits_that_contradict_each_other_leave_no_plan(
    tmp_path: Path, spec: dict[str, Any], said: str
) -> None:
    is_refused(ask(tmp_path, spec), exit_code=2, said=said)


DIMENSIONS = [
    name for name in SMALL_MODEL["architecture"] if name not in {"tiedEmbeddings", "queryKeyNorm"}
]


@pytest.mark.parametrize("name", DIMENSIONS)
def test_missing_dimension_is_named(tmp_path: Path, name: str) -> None:
    dimensions = {key: value for key, value in SMALL_MODEL["architecture"].items() if key != name}
    model = {"source": SMALL_MODEL["source"], "architecture": dimensions}
    said = f"spec.model.architecture.{name} is required"
    is_refused(ask(tmp_path, {"model": model}), exit_code=1, said=said)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        *(
            pytest.param(
                {key: value for key, value in SMALL_CONFIG.items() if key != name},
                f"no whole number '{name}', got None",
                id=name,
            )
            for name in ("hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size")
        ),
        pytest.param(
            {**SMALL_CONFIG, "num_attention_heads": 0, "head_dim": None},
            "num_query_heads must be >= 1, got 0",
            id="no heads",
        ),
        pytest.param([SMALL_CONFIG], "config.json must be a mapping", id="a list"),
        pytest.param("{", "config.json", id="half a file"),
    ],
)
def test_config_without_its_dimensions_is_refused(
    tmp_path: Path, config: object, said: str
) -> None:
    (tmp_path / "model").mkdir()
    text = config if isinstance(config, str) else json.dumps(config)
    (tmp_path / "model/config.json").write_text(text)
    result = ask(tmp_path, {"model": {"source": {"path": "model"}}})
    is_refused(result, exit_code=1, said=said)


def a_link(**fields: object) -> dict[str, Any]:
    return {
        "links": [
            {"from": "eu", "to": "us", "bandwidthGbps": 1, "latencyMilliseconds": 1, **fields}
        ]
    }


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        pytest.param(
            {"pools": [{**POOLS[0], "gpuKind": "B9000"}]},
            "'B9000' is not in the catalogue",
            id="an unknown kind",
        ),
        pytest.param(
            {"pools": [{**POOLS[0], "machines": 0}]},
            "spec.pools[0].machines must be >= 1, got 0",
            id="no machine",
        ),
        pytest.param({"pools": []}, "no machine with GPUs: give spec.pools", id="no pool"),
        pytest.param(
            {"gpuKinds": [{"name": "L4", "memoryGiB": -1}]},
            "memoryGiB must be > 0.0, got -1",
            id="negative memory",
        ),
        pytest.param(
            {"gpuKinds": [{"name": "L4", "dollarsPerHour": -1}]},
            "dollarsPerHour must be >= 0.0, got -1",
            id="a negative price",
        ),
        pytest.param(a_link(bandwidthGbps=0), "bandwidthGbps must be > 0.0, got 0", id="no way"),
        pytest.param(
            a_link(latencyMilliseconds=-1),
            "latencyMilliseconds must be >= 0.0, got -1",
            id="before it was sent",
        ),
        pytest.param(a_link(to="eu"), "spec.links must join two regions", id="a link to itself"),
        pytest.param(
            {"links": 2 * a_link()["links"]}, "spec.links[1] repeats eu, us", id="a link twice"
        ),
    ],
)
def test_impossible_fleet_is_refused(tmp_path: Path, topology: dict[str, Any], said: str) -> None:
    is_refused(ask(tmp_path, {}, topology=topology), exit_code=1, said=said)


@pytest.mark.parametrize("kind", ["T4", "V100-32GB"])
def test_fleet_without_bfloat16_gives_no_plan(tmp_path: Path, kind: str) -> None:
    topology = {"pools": [{**POOLS[0], "gpuKind": kind}]}
    result = ask(tmp_path, {}, topology=topology)
    assert result.exit_code == 2, result.output
    assert f"{kind} has compute capability 7." in result.stderr
    assert "use GPUs of compute capability 8.0 or more" in result.stderr


def test_consumer_card_is_planned_with_warning(tmp_path: Path) -> None:
    topology = {"pools": [{**POOLS[0], "gpuKind": "RTX-4090", "machines": 2}]}
    result = ask(tmp_path, {}, topology=topology, output="json")
    assert result.exit_code == 0, result.output
    assert "note: RTX-4090 is a consumer card" in result.stderr


def in_regions(*regions: str) -> dict[str, Any]:
    return {
        "pools": [{**POOLS[0], "name": f"a-{each}", "region": each} for each in regions],
        **a_link(),
    }


def test_unlinked_region_gets_a_poor_link_and_is_named(tmp_path: Path) -> None:
    result = ask(tmp_path, {}, topology=in_regions("asia", "eu", "us"), output="json")
    assert result.exit_code == 0, result.output
    said = "note: no link is given between asia and eu (and 1 more): 1 Gbit/s"
    assert said in result.stderr


def test_links_are_not_assumed_where_every_region_has_one(tmp_path: Path) -> None:
    result = ask(tmp_path, {}, topology=in_regions("eu", "us"), output="json")
    assert result.exit_code == 0, result.output
    assert "no link" not in result.stderr


@pytest.mark.slow
def test_line_that_carries_next_to_nothing_stops_no_plan(tmp_path: Path) -> None:
    topology = {**in_regions("eu", "us"), **a_link(bandwidthGbps=1e-9, latencyMilliseconds=10_000)}
    result = ask(tmp_path, {"planning": {"timeBudgetSeconds": 600}}, topology=topology)
    assert result.exit_code == 0, result.output
