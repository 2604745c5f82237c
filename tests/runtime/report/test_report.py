"""The report of a run, from files that the coordinator's own writer wrote."""

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.job.spec import DataSpec, Engine, ModelFiles, Strategy, TrainingSpec
from hetrl_core.launch import Address, JobIdentity, Launch, to_json
from hetrl_core.plan.plan import (
    MemoryUse,
    Parallelism,
    Plan,
    Prediction,
    Replica,
    ReplicaGroup,
    Share,
)
from hetrl_core.task import Role, Task
from hetrl_runtime.coordinator.reporting.run_files import ReportFiles, step_record
from hetrl_runtime.report.command import command
from hetrl_runtime.report.page import page
from hetrl_runtime.report.record import Accuracy, NoRunError, read
from hetrl_runtime.report.spans import Splitter
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import SampledTrajectory
from hetrl_runtime.wire.values import ALL_STEPS_DONE, Ending, StepReport
from tests.runtime.trajectories import a_trajectory, delivered

pytestmark = pytest.mark.slow

NOWHERE = Address(host="127.0.0.1", port=1)


def a_group(task: Task, kind: str) -> ReplicaGroup:
    return ReplicaGroup(
        tasks=(task,),
        gpu_kind=kind,
        region="local",
        parallelism=Parallelism(tensor=1, stage_layers=(3,)),
        replicas=(Replica(shares=(Share(machine=f"{kind.lower()}-0", num_gpus=1),)),),
        memory=MemoryUse(weights_bytes=2**30),
    )


def a_plan() -> Plan:
    return Plan(
        strategy=Strategy.AUTO,
        groups=(a_group(Task.ACTOR_TRAINING, "A100-80GB"), a_group(Task.ACTOR_GENERATION, "L4")),
        prediction=Prediction(
            step_seconds=0.5,
            generation_seconds=0.5,
            training_seconds=0.25,
            weight_sync_seconds=0.01,
            samples_per_second=16,
            dollars_per_hour=3.1,
            mean_staleness=1.5,
            bottleneck="generation: HBM bandwidth of the L4s",
        ),
    )


def a_launch(model: str) -> Launch:
    return Launch(
        job=JobIdentity(namespace="default", name="math", uid="1"),
        pod_set="coordinator",
        role=Role.COORDINATOR,
        coordinator=NOWHERE,
        weights=NOWHERE,
        rendezvous=NOWHERE,
        model=ModelFiles(source=model),
        engine=Engine.TRANSFORMERS,
        algorithm=AlgorithmSpec(max_staleness=2, group_size=2, global_batch_size=2),
        data=DataSpec(prompts="train.jsonl"),
        training=TrainingSpec(steps=3),
        state_path="state",
        checkpoint_path="checkpoints",
    )


class Run:
    """A run's folder as its processes would leave it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "launch").mkdir(parents=True)
        (path / "launch/coordinator-0.json").write_text(to_json(a_launch(str(path / "model"))))
        (path / "plan.json").write_bytes(TypeAdapter(Plan).dump_json(a_plan()))
        self._files = ReportFiles(path / "state/coordinator-0")

    def commit(
        self,
        version: int,
        trained: Sequence[SampledTrajectory],
        reward: float,
        parts: Mapping[str, float] | None = None,
    ) -> None:
        step = step_record(
            epoch=1,
            consumed=[delivered(each) for each in trained],
            num_discarded=1,
            staleness=Counter(version - 1 - each.oldest_version for each in trained),
            report=StepReport(step_seconds=2.0, wait_seconds=0.5, metrics={"loss": 0.1}),
            progress=self.progress(version, reward, parts),
        )
        self._files.add_step(step, consumed=[delivered(each) for each in trained])

    def end(self, ending: Ending, *, version: int) -> None:
        self._files.write_result(ending, progress=self.progress(version, 0.5))

    def progress(
        self, version: int, reward: float, parts: Mapping[str, float] | None = None
    ) -> pb.Progress:
        worker = pb.ProcessProgress(process="rollout-l4-0-0", role="rollout", idle_ratio=0.25)
        return pb.Progress(
            step=version,
            version=version,
            total_steps=3,
            reward_mean=reward,
            reward_parts=parts or {},
            samples_per_second=8,
            processes=[worker, pb.ProcessProgress(process="trainer-a100-80gb-0-0", role="trainer")],
        )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of three steps that succeeded."""
    found = Run(tmp_path / "run")
    found.commit(1, [a_trajectory(versions=(0, 0)), a_trajectory(member=1)], reward=0.2)
    found.commit(2, [a_trajectory(1, versions=(0, 1)), a_trajectory(1, 1)], reward=0.4)
    found.commit(3, [a_trajectory(2, versions=(2,)), a_trajectory(2, 1, versions=(1,))], reward=0.6)
    found.end(Ending(reason=ALL_STEPS_DONE), version=3)
    return found


class Links(HTMLParser):
    """Everything that a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fetches = {"src", "srcset"} | ({"href"} if tag == "link" else set())
        self.found += [str(value) for name, value in attrs if name in fetches]


def test_record_counts_what_was_trained_on(run: Run) -> None:
    record = read(run.path)

    assert record.outcome == "Succeeded"
    assert [step.reward_mean for step in record.steps] == [0.2, 0.4, 0.6]
    assert record.staleness == {0: 3, 1: 3}
    assert record.mean_staleness == 0.5
    assert record.median_step_seconds == 2.0
    assert [step.trainer_idle for step in record.steps] == [0.25] * 3
    assert record.steps[0].idle == {"rollout-l4-0-0": 0.25}


def test_parts_of_rewards_are_drawn_and_counted(run: Run) -> None:
    parts = {"correct": 1.0, "form": 0.25}
    run.commit(4, [a_trajectory(4, versions=(3,), reward_parts=parts)], reward=1.25, parts=parts)

    html = CliRunner().invoke(command, [str(run.path)])

    assert html.exit_code == 0, html.output
    found = json.loads((run.path / "report/summary.json").read_text())
    assert found["reward_parts_first"] == found["reward_parts_final"] == parts
    text = (run.path / "report/index.html").read_text()
    assert "Reward form" in text
    assert "correct 1, form 0.25" in text


def test_steps_that_a_trainer_lost_and_did_again_count_once(run: Run) -> None:
    run.commit(2, [a_trajectory(3, versions=(1,)), a_trajectory(3, 1, versions=(1,))], reward=0.5)

    record = read(run.path)

    assert [(step.step, step.reward_mean) for step in record.steps] == [(1, 0.2), (2, 0.5)]
    assert record.staleness == {0: 4}


def test_half_a_line_at_the_end_is_left_out(run: Run) -> None:
    with (run.path / "state/coordinator-0/steps.jsonl").open("a") as file:
        file.write('{"step": 4, "rew')

    assert len(read(run.path).steps) == 3


def test_evaluations_before_and_after_are_part_of_the_record(run: Run) -> None:
    (run.path / "evaluation").mkdir()
    (run.path / "evaluation/before.json").write_text('{"correct": 30, "count": 100}')
    (run.path / "evaluation/after.json").write_text('{"correct": 90, "count": 100}')

    record = read(run.path)

    assert (record.before, record.after) == (
        Accuracy(correct=30, problems=100),
        Accuracy(correct=90, problems=100),
    )


def test_report_is_four_pictures_and_a_page_that_fetches_nothing(run: Run) -> None:
    result = CliRunner().invoke(command, [str(run.path)])

    assert result.exit_code == 0, result.output
    names = {path.name for path in (run.path / "report").iterdir()}
    pictures = {"reward.png", "staleness.png", "throughput.png", "idle.png"}
    assert names == {"index.html", "summary.json"} | pictures
    for name in pictures:
        assert (run.path / "report" / name).read_bytes().startswith(b"\x89PNG")
    text = (run.path / "report/index.html").read_text()
    links = Links()
    links.feed(text)
    assert links.found == []
    assert "url(http" not in text
    assert text.count("<svg") == 4


def test_picture_of_the_plan_is_part_of_the_page(run: Run) -> None:
    CliRunner().invoke(command, [str(run.path)])
    assert "<img" not in (run.path / "report/index.html").read_text()

    drawn = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    (run.path / "plan.svg").write_bytes(drawn)
    CliRunner().invoke(command, [str(run.path)])

    links = Links()
    links.feed((run.path / "report/index.html").read_text())
    (only,) = links.found
    # As an image, a picture can fetch nothing and run nothing.
    head, _, held = only.partition(",")
    assert head == "data:image/svg+xml;base64"
    assert b64decode(held) == drawn


def test_summary_has_the_same_figures_for_programs(run: Run) -> None:
    CliRunner().invoke(command, [str(run.path)])

    found = json.loads((run.path / "report/summary.json").read_text())
    assert found["outcome"] == "Succeeded"
    assert (found["steps"], found["total_steps"], found["trajectories"]) == (3, 3, 6)
    assert (found["staleness_mean"], found["staleness_max"], found["max_staleness"]) == (0.5, 1, 2)
    assert found["reward_final"] == pytest.approx(0.4)
    assert found["accuracy_after"] is None


def test_page_says_the_plan_the_prediction_and_the_bound(run: Run) -> None:
    CliRunner().invoke(command, [str(run.path)])

    text = (run.path / "report/index.html").read_text()
    for said in (
        "default/math",
        "Succeeded",
        "1 x A100-80GB",
        "1 x L4",
        "HBM bandwidth of the L4s",
        "0.5 s",
        "2 s",
        "bound 2",
        "mean; largest 1",
        "version 0",
    ):
        assert said in text, said


def test_model_output_cannot_become_markup(run: Run) -> None:
    record = read(run.path)
    shown = replace(record.samples[0], question="<script>alert(1)</script>")

    text = page(replace(record, samples=(shown,)), {})

    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_failed_run_says_why(run: Run) -> None:
    run.end(Ending(reason="NoLearningSignal", message="all rewards are equal"), version=3)

    CliRunner().invoke(command, [str(run.path)])

    text = (run.path / "report/index.html").read_text()
    assert "Failed" in text
    assert "all rewards are equal" in text


def test_run_without_a_step_has_a_page_without_pictures(tmp_path: Path) -> None:
    Run(tmp_path / "run")

    result = CliRunner().invoke(command, [str(tmp_path / "run")])

    assert result.exit_code == 0, result.output
    text = (tmp_path / "run/report/index.html").read_text()
    assert "<svg" not in text
    assert "Unfinished" in text


def test_folder_that_is_no_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(NoRunError, match="holds no run"):
        read(tmp_path)

    result = CliRunner().invoke(command, [str(tmp_path)])

    assert result.exit_code == 1
    assert result.output.startswith("Error: ")


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([(3, 4)], ["5+6="]),
        ([(3, 2), (4, 2)], ["5+", "6="]),
        ([(3, 2), (4, 3)], ["5+", "6="]),
        ([(3, 4), (4, 1)], ["5+6=", ""]),
        ([(3, 9), (4, 9)], ["5+6=", ""]),
        ([(3, 1), (-1, 2), (4, 2)], ["5", "+6", "="]),
    ],
    ids=[
        "one version",
        "two",
        "an end token",
        "only the end token is newer",
        "does not fit",
        "a tool between",
    ],
)
def test_response_is_split_where_the_versions_changed(
    runs: list[tuple[int, int]], expected: list[str], tmp_path: Path
) -> None:
    make_tokenizer(max_tokens=64).save_pretrained(tmp_path)
    splitter = Splitter.of_model(ModelFiles(source=str(tmp_path)))

    spans = splitter.split("5+6=", runs)

    assert [span.text for span in spans] == expected
    assert [(span.version, span.num_tokens) for span in spans] == runs


def test_response_is_shown_whole_without_a_tokenizer() -> None:
    spans = Splitter.of_model(ModelFiles(source="owner/name", is_path=False)).split(
        "5+6", [(1, 2), (2, 1)]
    )

    assert [span.text for span in spans] == ["5+6", ""]
