"""A short `make proof-kill`: one run of real processes, each struck where it hurts.

The proof itself takes long and strikes hundreds of times; this is what every change must pass.
"""

import random
import signal
from pathlib import Path

import pytest

from bench.proof.kill.arrangement import Layout, Work, make_claim
from bench.proof.kill.cases import CASES
from bench.proof.kill.fault_injection import deal
from bench.proof.kill.page import page
from bench.proof.kill.stage import Stage
from bench.proof.kill.starter import Starter
from bench.proof.kill.strikes import Strike
from bench.proof.kill.verdict import judge, record
from hetrl_core.task import Role

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = 8


def a_strike(role: Role) -> Strike:
    return Strike(role=role, pick=0, number=signal.SIGKILL, after_versions=1, delay_seconds=0.0)


async def be_struck(stage: Stage) -> None:
    keeper = stage.arranged()
    (trainer,) = keeper.of_role(Role.TRAINER)
    # With published weights that are not counted yet, and in the middle of a checkpoint.
    trainer.dies_at.extend(["version-published:3", "checkpoint-written"])
    async with stage.kept(keeper):
        for role in (Role.ROLLOUT, Role.INFERENCE, Role.COORDINATOR):
            await deal(keeper, a_strike(role))
        await stage.to_the_end(keeper)
    assert not trainer.dies_at


async def test_run_whose_processes_are_killed_keeps_every_promise(tmp_path: Path) -> None:
    claim = make_claim(tmp_path / "claim", warm_up_steps=60)
    async with Starter.open() as starter:
        stage = Stage(
            starter=starter,
            out=tmp_path / "run",
            claim=claim,
            work=Work(steps=STEPS, layout=Layout.REFERENCE_APART),
            rng=random.Random(1),
            seed=1,
        )
        await be_struck(stage)
        stage.close()

    assert judge(stage, hung="") == []
    assert {kill.role for kill in stage.kills} == set(Role)
    assert len(stage.kills) == 5
    assert stage.story.ending == "AllStepsDone"
    assert stage.story.lost_steps
    assert (stage.folder.checkpoints / f"step-{STEPS:08d}" / "model.safetensors").exists()
    found = record(stage, hung="", wall_seconds=60.0) | {"commit": "abc", "code": "old"}
    text = page({CASES[0]: found}, code="new")
    assert "**5 deaths, 0 violations.**" in text
    assert "| 0 | abc (earlier code) |" in text
    assert f"Not played yet: {CASES[1].title}, " in text
