"""Sources of the tables: kept records, simulated plans, ratios under changed figures."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.planner import ours, played, scenarios
from bench.planner.areal_hex_table import market
from bench.planner.baselines import verl_tuned
from bench.planner.baselines.equal_shares import EqualShares
from bench.planner.changes import changed
from bench.planner.records import from_layout, kept, part_of, to_layout
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.evaluation import Evaluation
from tests.builders import a_fleet


def test_kept_layout_is_the_same_and_costs_the_same() -> None:
    work = scenarios.workload("Qwen2.5-1.5B", tasks=scenarios.PPO, is_synchronous=True)
    evaluator = EqualShares(work, scenarios.devices(scenarios.frozen(a_fleet(a100=8, l4=8))))
    layout = verl_tuned.plan(evaluator)
    assert layout
    assert to_layout(from_layout(layout)) == layout


def test_record_is_made_once_and_again_on_request(tmp_path: Path) -> None:
    made = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"times": len(made)}

    path = tmp_path / "cells" / "one.json"
    assert [kept(path, make)["times"] for _ in range(3)] == [1, 1, 1]
    assert kept(path, make, fresh=True)["times"] == 2
    assert [each.name for each in path.parent.iterdir()] == ["one.json"]


def test_parts_share_out_every_cell_once() -> None:
    parts = [part_of(f"{number}/3", list(range(10))) for number in (1, 2, 3)]
    assert sorted(cell for part in parts for cell in part) == list(range(10))


@pytest.mark.parametrize("is_synchronous", [True, False], ids=["sync", "async"])
@pytest.mark.slow
def test_plan_takes_about_as_long_played_as_priced(is_synchronous: bool) -> None:
    work = scenarios.workload("Qwen2.5-1.5B", tasks=scenarios.GRPO, is_synchronous=is_synchronous)
    fleet = scenarios.frozen(a_fleet(a100=8, l40s=8))
    found = ours.plan(work, fleet, evaluations=0)
    assert found
    seconds = played.step_seconds(found, Evaluator(work, scenarios.devices(fleet)))
    assert seconds == pytest.approx(found.step_seconds, rel=0.3)


def test_changed_figures_change_one_thing_each() -> None:
    fleet = scenarios.fleet(scenarios.HETRL_CASES[0].scenario)
    found = changed(fleet)
    assert len(found) == len(set(found)) == 2 * (3 * 4 + 2)
    for name, other in found.items():
        differing = [
            field
            for old, new in zip(fleet.gpu_kinds, other.gpu_kinds, strict=True)
            for field in ("compute_efficiency", "memory_efficiency", "dollars_per_hour")
            if getattr(old, field) != getattr(new, field)
        ]
        links = sum(old != new for old, new in zip(fleet.links, other.links, strict=True))
        assert len(differing) <= 1
        assert not (differing and links), name


def test_market_has_what_the_budget_buys_of_each_kind() -> None:
    fleet = market(("H800-80GB", "H20"), 96.0, {"H800-80GB": 6.0, "H20": 2.0})
    counts = {
        name: sum(each.num_gpus for each in fleet.machines if each.gpu_kind == name)
        for name in ("H800-80GB", "H20")
    }
    assert counts == {"H800-80GB": 24, "H20": 56}


@pytest.mark.slow
def test_plan_on_part_of_a_fleet_is_no_faster() -> None:
    work = scenarios.workload("Qwen2.5-1.5B", tasks=scenarios.GRPO, is_synchronous=False)
    fleet = scenarios.frozen(a_fleet(a100=8, l40s=8))
    part = replace(
        fleet, machines=tuple(each for each in fleet.machines if each.gpu_kind == "L40S")
    )
    whole, alone = (ours.plan(work, each, evaluations=0) for each in (fleet, part))
    assert isinstance(whole, Evaluation)
    assert isinstance(alone, Evaluation)
    assert whole.step_seconds <= alone.step_seconds
