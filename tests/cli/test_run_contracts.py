"""Launch contracts that `hetrl run` writes, and the folder that it keeps them in."""

import json
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hetrl_cli.run.setup.certificates import write_certificates
from hetrl_cli.run.setup.commands import commands
from hetrl_cli.run.setup.contracts import Pod, pods
from hetrl_cli.run.setup.folder import RunFolder, begin, newest_folder, next_folder, resume, take
from hetrl_cli.run.setup.ports import free_ports
from hetrl_cli.run.setup.prepare import Experiment
from hetrl_core.job.algorithm import AlgorithmSpec, AlgorithmType
from hetrl_core.job.spec import Engine, RolloutSpec, TracesSpec
from hetrl_core.launch import JobIdentity, from_json, to_json
from hetrl_core.plan.plan import Plan
from hetrl_core.task import Role, Task
from hetrl_ownership.owned_folder import InUseError
from tests.builders import a_job
from tests.controller.values import a_plan as a_trainer_and_rollouts

pytestmark = pytest.mark.slow

IDENTITY = JobIdentity(namespace="default", name="math", uid="1")


def a_plan(algorithm: AlgorithmType) -> Plan:
    """A trainer, with its critic if it has one, and two rollouts."""
    found = a_trainer_and_rollouts()
    trainer, *others = found.groups
    critic = (Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING)
    tasks = (*trainer.tasks, *(critic if algorithm is AlgorithmType.PPO else ()))
    return replace(found, groups=(replace(trainer, tasks=tasks), *others))


def some_pods(
    folder: Path,
    *,
    encrypted: bool = True,
    engine: Engine = Engine.VLLM,
    algorithm: AlgorithmType = AlgorithmType.GRPO,
    traces: TracesSpec | None = None,
) -> tuple[Pod, ...]:
    job = a_job(
        "Qwen3-0.6B",
        rollout=RolloutSpec(replicas=2),
        max_gpus=3,
        engine=engine,
        algorithm=AlgorithmSpec(type=algorithm),
    )
    return pods(
        a_plan(algorithm),
        replace(job, traces=traces),
        identity=IDENTITY,
        folder=RunFolder(path=folder),
        ports=(1, 2, 3),
        startup_deadline_seconds=60,
        encrypted=encrypted,
    )


def test_plan_becomes_a_coordinator_a_trainer_and_its_rollouts(tmp_path: Path) -> None:
    found = some_pods(tmp_path)

    roles = [pod.launch.role for pod in found]
    assert roles.count(Role.COORDINATOR) == roles.count(Role.TRAINER) == 1
    assert roles.count(Role.ROLLOUT) == 2
    assert found[0].name == "coordinator-0"


def test_processes_get_the_same_contract_but_for_identity(tmp_path: Path) -> None:
    found = [pod.launch for pod in some_pods(tmp_path)]

    assert len({(each.coordinator, each.weights, each.job, each.algorithm) for each in found}) == 1
    assert {str(each.coordinator) for each in found} == {"127.0.0.1:1"}
    assert {each.listen_host for each in found} == {"127.0.0.1"}
    assert {each.metrics_port for each in found} == {0}
    assert {each.num_rollout_pods for each in found} == {2}
    concurrencies = [each.concurrency for each in found if each.role is Role.ROLLOUT]
    assert {each.max_concurrent for each in found} == {sum(concurrencies)}
    assert len({each.state_path for each in found}) == len(found)


def test_contracts_survive_the_way_through_their_file(tmp_path: Path) -> None:
    for pod in some_pods(tmp_path):
        assert from_json(to_json(pod.launch)) == pod.launch


def test_roles_have_their_own_certificate_files(tmp_path: Path) -> None:
    write_certificates(tmp_path, job="math")
    folder = RunFolder(path=tmp_path.parent / "run")
    named = {
        Path(path).name
        for pod in some_pods(folder.path)
        if pod.launch.tls
        for path in (pod.launch.tls.ca, pod.launch.tls.certificate, pod.launch.tls.key)
    }

    issued = {path.name for path in tmp_path.iterdir()}
    # One that this plan has no process for.
    assert issued - named == {"inference.crt", "inference.key"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_certificate_is_not_named_without_encryption(tmp_path: Path) -> None:
    assert {pod.launch.tls for pod in some_pods(tmp_path, encrypted=False)} == {None}


def test_vllm_environment_is_for_vllm_rollouts_only(tmp_path: Path) -> None:
    environment = {"HETRL_ROLLOUT_PYTHON": "/vllm/bin/python"}

    def entry_points(engine: Engine) -> dict[Role, str]:
        started = commands(
            some_pods(tmp_path, engine=engine),
            RunFolder(path=tmp_path),
            environment=environment,
            num_devices=0,
        )
        return {each.role: each.arguments[0] for each in started}

    ours = str(Path(sys.executable).parent / "hetrl")
    assert entry_points(Engine.TRANSFORMERS)[Role.ROLLOUT] == ours
    assert entry_points(Engine.VLLM) == {
        Role.COORDINATOR: ours,
        Role.TRAINER: ours,
        Role.ROLLOUT: "/vllm/bin/hetrl",
    }


def test_processes_do_not_start_a_thread_a_core_by_default(tmp_path: Path) -> None:
    def threads(environment: dict[str, str]) -> set[str]:
        started = commands(
            some_pods(tmp_path), RunFolder(path=tmp_path), environment=environment, num_devices=0
        )
        return {each.environment["OMP_NUM_THREADS"] for each in started}

    assert threads({}) == {"1"}
    assert threads({"OMP_NUM_THREADS": "4"}) == {"4"}


@pytest.mark.parametrize("algorithm", AlgorithmType)
def test_processes_share_the_gpus_that_there_are_in_turn(
    tmp_path: Path, algorithm: AlgorithmType
) -> None:
    # A critic's tasks are more rows of the rank table, and no more GPUs.
    started = commands(
        some_pods(tmp_path, algorithm=algorithm),
        RunFolder(path=tmp_path),
        environment={},
        num_devices=2,
    )

    visible = [each.environment.get("CUDA_VISIBLE_DEVICES") for each in started]
    assert visible == [None, "0", "1", "0"]


def test_free_ports_are_distinct_and_below_the_ephemeral_range() -> None:
    found = free_ports(20)

    assert len(set(found)) == 20
    assert max(found) < 32_768


def test_new_run_gets_the_next_free_folder(tmp_path: Path) -> None:
    assert next_folder(tmp_path, "math").path.name == "math-1"
    begin(next_folder(tmp_path, "math"), namespace="default", name="math")

    assert next_folder(tmp_path, "math").path.name == "math-2"
    assert newest_folder(tmp_path, "math") == RunFolder(path=tmp_path / "math-1")
    assert newest_folder(tmp_path, "other") is None


def test_run_does_not_write_into_another_runs_folder(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path / "run")
    begin(folder, namespace="default", name="math")

    with pytest.raises(ValueError, match="is not empty: continue its run with --resume"):
        begin(folder, namespace="default", name="math")


def test_run_folder_in_use_is_refused_unchanged(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path / "run")
    running = take(folder, resumed=False)
    begin(folder, namespace="default", name="math")
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}

    with pytest.raises(
        InUseError, match=rf"^{folder.path} is in use by process \d+ of \S+ since 20"
    ):
        take(folder, resumed=True)

    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before
    running.close()
    take(folder, resumed=True).close()


def test_folder_is_not_taken_from_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    folder = RunFolder(path=tmp_path)

    with pytest.raises(ValueError, match="is not empty"):
        take(folder, resumed=False)
    with pytest.raises(ValueError, match="holds no run that could be resumed"):
        take(folder, resumed=True)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_resumed_run_keeps_its_identity(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path / "run")
    first = begin(folder, namespace="default", name="math")

    assert resume(folder, namespace="default", name="math") == first


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "holds no run that could be resumed"),
        ("{", "holds no run that could be resumed"),
        (json.dumps({"namespace": "default", "name": "other", "uid": "1"}), "not of default/math"),
    ],
    ids=["no run", "damaged", "another job's"],
)
def test_run_is_resumed_for_the_same_job_only(
    tmp_path: Path, content: str | None, problem: str
) -> None:
    folder = RunFolder(path=tmp_path)
    if content is not None:
        folder.identity_file.write_text(content)

    with pytest.raises(ValueError, match=problem):
        resume(folder, namespace="default", name="math")


def test_processes_all_get_the_endpoint_of_traces(tmp_path: Path) -> None:
    traces = TracesSpec(endpoint="http://otel:4318", sample_ratio=0.5)

    assert {pod.launch.traces for pod in some_pods(tmp_path)} == {None}
    found = some_pods(tmp_path, traces=traces)
    assert {from_json(to_json(pod.launch)).traces for pod in found} == {traces}


def test_traces_option_samples_every_trajectory() -> None:
    job = a_job("Qwen3-0.6B")

    asked = Experiment(traces="http://localhost:4318").applied_to(job)

    assert asked.traces == TracesSpec(endpoint="http://localhost:4318", sample_ratio=1.0)
    with pytest.raises(ValueError, match=r"--traces must be .* such as http.*, got otel:4318"):
        Experiment(traces="otel:4318").applied_to(job)


def test_run_differs_from_its_job_only_in_what_is_asked() -> None:
    job = a_job("Qwen3-0.6B", steps=100)

    asked = Experiment(engine=Engine.TRANSFORMERS, steps=3, seed=7).applied_to(job)

    assert Experiment().applied_to(job) == job
    assert asked == replace(
        job, engine=Engine.TRANSFORMERS, training=replace(job.training, steps=3, seed=7)
    )
