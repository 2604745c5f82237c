"""The display of a run: the live panel, the plain lines, and their source."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hetrl_cli.run.display.charts import bar, curve
from hetrl_cli.run.display.panel import Moment, clock, line, view
from hetrl_cli.run.display.progress import ProcessProgress, Progress, Progresses
from hetrl_cli.run.display.screen import PlainScreen
from hetrl_cli.run.execute import _work_done


def a_progress(**changes: Any) -> Progress:
    figures: dict[str, Any] = {
        "step": 30,
        "total_steps": 120,
        "version": 30,
        "samples_per_second": 97.5,
        "reward_mean": 0.625,
        "staleness_mean": 1.4,
        "staleness_max": 2.0,
        "eta_seconds": 125.0,
        "buffered": 96,
        "running": 64,
        "waiting_for": "the trainer waits for a full batch",
        "processes": (
            ProcessProgress(
                process="rollout-l4-0-0",
                pod_set="rollout-l4-0",
                version=29,
                running=32,
                tokens_per_second=1320.0,
                idle_ratio=0.25,
            ),
        ),
    }
    return Progress(**(figures | changes))


def a_moment(progress: Progress | None = None, **changes: Any) -> Moment:
    figures: dict[str, Any] = {
        "job": "default/arithmetic",
        "plan": "training on 1 x L4",
        "elapsed_seconds": 63.0,
        "gpu_kinds": {"rollout-l4-0": "L4"},
        "predicted_step_seconds": 0.5,
        "max_staleness": 2,
    }
    return Moment(progress=progress, **(figures | changes))


def drawn(moment: Moment) -> str:
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(view(moment))
    return console.export_text()


def test_panel_shows_step_reward_rate_staleness_processes_and_what_waits() -> None:
    text = drawn(a_moment(a_progress(), rewards=[0.5, 0.625], rates=[90.0, 97.5]))

    for said in (
        "default/arithmetic",
        "training on 1 x L4",
        "step 30 / 120",
        "reward 0.625",
        "samples/s 97.5",
        "mean 1.40  max 2 of 2",
        "in buffer 96",
        "rollout-l4-0-0",
        "L4",
        "1,320",
        "25%",
        "the trainer waits for a full batch",
        "1:03",
    ):
        assert said in text


def test_panel_fits_a_terminal_whatever_the_run_has_to_say() -> None:
    long = "x" * 500
    text = drawn(a_moment(a_progress(waiting_for=long), rewards=[0.5] * 1000, events=(long,)))

    assert max(len(row) for row in text.splitlines()) <= 104


def test_panel_says_when_the_coordinator_has_not_reported() -> None:
    assert "waiting for the coordinator" in drawn(a_moment())


def test_line_describes_the_run() -> None:
    assert line(a_moment(a_progress())) == (
        "1:03  step 30/120  reward 0.625  97.5 samples/s  staleness 1.40 (max 2 of 2)"
        "  buffer 96  the trainer waits for a full batch"
    )


def test_rewards_of_a_job_are_shown_by_name() -> None:
    moment = a_moment(a_progress(reward_parts={"correct": 0.5, "form": 0.25}))

    assert "reward 0.625 (correct 0.500, form 0.250)  97.5 samples/s" in line(moment)
    assert "rewards   correct 0.500   form 0.250" in drawn(moment)


def test_plain_lines_carry_every_event_once(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out, PlainScreen(Console(file=out, width=80)) as screen:
        screen.show(a_moment(events=("rollout-0 was killed by signal 9",)))
        screen.show(a_moment(events=("rollout-0 was killed by signal 9", "trainer ended with 1")))

    said = (tmp_path / "out").read_text()
    assert said.count("signal 9") == said.count("trainer ended with 1") == 1


def test_notices_are_shown_by_both_screens(tmp_path: Path) -> None:
    notice = "300 of 1,000 prompts are longer than data.maxPromptTokens"
    few, all_of_them = (a_progress(notices=(each,)) for each in ("7 of 1,000 prompts", notice))
    with (tmp_path / "out").open("w") as out, PlainScreen(Console(file=out, width=80)) as screen:
        for each in (a_progress(), few, all_of_them, all_of_them):
            screen.show(a_moment(each))

    assert (tmp_path / "out").read_text().count(notice) == 1
    assert notice in drawn(a_moment(all_of_them))


@pytest.mark.parametrize(
    ("changes", "is_work"),
    [
        ({"running": 0}, False),
        ({"processes": ()}, False),
        ({"waiting_for": "no rollout worker is here yet"}, False),
        ({"step": 31}, True),
        ({"buffered": 97}, True),
        ({"notices": ("1 of 4 prompts are left out",)}, True),
    ],
)
def test_stall_guard_counts_finished_work(*, changes: dict[str, Any], is_work: bool) -> None:
    assert (_work_done(a_progress(**changes)) != _work_done(a_progress())) is is_work


def test_curve_is_as_high_as_its_values() -> None:
    assert curve([0.0, 0.5, 1.0], width=4, height=2, top=1.0) == ("  █ ", " ██ ")


def test_curve_with_many_values_keeps_the_whole_run_in_view() -> None:
    assert curve([0.0] * 50 + [1.0] * 50, width=10, height=1, top=1.0) == ("     █████",)


def test_bar_ends_in_eighths() -> None:
    assert bar(0.5, width=5) == "██▌  "
    assert bar(7.0, width=3) == "███"


def test_durations_read_like_a_clock() -> None:
    assert [clock(seconds) for seconds in (0, 62.9, 3723)] == ["0:00", "1:02", "1:02:03"]


def write_step(state: Path, step: int, reward: float, *, ending: str = "\n") -> None:
    content = {"step": step, "reward_mean": reward, "samples_per_second": 1.0}
    with (state / "steps.jsonl").open("a") as file:
        file.write(json.dumps(content) + ending)


def test_steps_are_followed_as_their_file_grows(tmp_path: Path) -> None:
    progresses = Progresses(tmp_path)
    assert progresses.steps() == ()

    write_step(tmp_path, 1, 0.1)
    assert [step.step for step in progresses.steps()] == [1]
    write_step(tmp_path, 2, 0.2)
    assert [step.reward_mean for step in progresses.steps()] == [0.1, 0.2]


def test_half_written_step_is_read_when_it_is_whole(tmp_path: Path) -> None:
    progresses = Progresses(tmp_path)
    write_step(tmp_path, 1, 0.1, ending="")

    assert progresses.steps() == ()
    with (tmp_path / "steps.jsonl").open("a") as file:
        file.write("\n")
    assert [step.step for step in progresses.steps()] == [1]


def test_curve_drops_steps_lost_by_a_rewound_trainer(tmp_path: Path) -> None:
    for step, reward in [(1, 0.1), (2, 0.2), (3, 0.3), (2, 0.25)]:
        write_step(tmp_path, step, reward)

    assert [step.reward_mean for step in Progresses(tmp_path).steps()] == [0.1, 0.25]


def test_progress_is_empty_without_a_report(tmp_path: Path) -> None:
    assert Progresses(tmp_path).newest() is None
