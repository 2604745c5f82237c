"""Contracts and processes of `hetrl run` where GPUs do several roles' work."""

from pathlib import Path

from hetrl_cli.run.metrics.scrape import targets
from hetrl_cli.run.setup.commands import ROLLOUT_PYTHON, commands
from hetrl_cli.run.setup.contracts import NUM_PORTS, Pod, pods
from hetrl_cli.run.setup.folder import RunFolder
from hetrl_core.job.spec import Engine
from hetrl_core.launch import JobIdentity
from hetrl_core.task import Role, Task
from tests.builders import a_job
from tests.controller.test_shared_gpus import together

IDENTITY = JobIdentity(namespace="default", name="math", uid="1")


def some_pods(folder: Path) -> tuple[Pod, ...]:
    return pods(
        together(Task.REWARD_INFERENCE),
        a_job(has_reward_model=True, engine=Engine.VLLM),
        identity=IDENTITY,
        folder=RunFolder(path=folder),
        ports=(*range(1, NUM_PORTS + 1), 11, 12, 13),
        startup_deadline_seconds=60,
        encrypted=False,
    )


def test_pod_gets_a_port_for_each_of_its_programs(tmp_path: Path) -> None:
    coordinator, trainer = (pod.launch for pod in some_pods(tmp_path))

    assert (coordinator.metrics_port, coordinator.more_metrics_ports) == (11, ())
    # One port short: that program takes any.
    assert (trainer.metrics_port, trainer.more_metrics_ports) == (12, (13, 0))
    assert trainer.concurrency == trainer.max_concurrent == 16
    assert trainer.num_rollout_pods == 1


def test_series_are_labelled_with_the_role_that_measures_them(tmp_path: Path) -> None:
    found = targets(some_pods(tmp_path), IDENTITY, own_port=20)

    assert [(each.port, each.labels.get("role")) for each in found] == [
        (11, "coordinator"),
        (12, "trainer"),
        (13, "rollout"),
        (0, "inference"),
        (20, None),
    ]
    assert {each.labels["pod"] for each in found[1:4]} == {"trainer-a100-80gb-0-0"}


def test_generating_trainer_runs_in_the_environment_with_vllm(tmp_path: Path) -> None:
    there = tmp_path / "vllm" / "python"
    environment = {ROLLOUT_PYTHON: str(there)}

    coordinator, trainer = commands(
        some_pods(tmp_path), RunFolder(path=tmp_path), environment=environment, num_devices=0
    )

    assert trainer.arguments[:2] == (str(there.parent / "hetrl"), "trainer")
    assert trainer.role is Role.TRAINER
    assert coordinator.arguments[0] != trainer.arguments[0]
