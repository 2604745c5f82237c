"""Texts of others on terminals: shown as texts, and nothing else happens."""

import io
import logging
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from hetrl_cli.console import PlainConsole
from hetrl_cli.jobs import status, top
from hetrl_cli.jobs.job_view import JobView
from hetrl_cli.main import Commands
from hetrl_cli.run.display.panel import Moment
from hetrl_cli.run.display.screen import LiveScreen, PlainScreen
from hetrl_cli.say import say
from hetrl_operator.logs import OneLineFormatter

TEXTS = [
    "prompt '[INST] 1+1 [/INST]' is too long",
    "[/bold] and then [red]more",
    "a path [/data/train.jsonl] in brackets",
    "[link=http://a.example]here[/link] :smile:",
    "\x1b[2J\x1b]0;a title\a",
    "\x1b]8;;http://a.example\x1b\\here",
    "first line\nsecond line\rthird",
    "\x9b2J and \u202e reversed \u2028 line",
    "[x] swallowed",
]
HARMFUL = ("\x1b[2J", "\x1b]", "\a", "\rthird", "\x9b", "\u202e", "\u2028")


def a_job(text: str) -> JobView:
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": "TrainerFailed",
        "message": text,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    return JobView(
        {
            "metadata": {"name": text, "namespace": "team", "creationTimestamp": None},
            "spec": {"training": {"steps": 9}, "algorithm": {"maxStaleness": 2}},
            "status": {
                "phase": "Failed",
                "conditions": [condition],
                "progress": {"notices": [text]},
                "preflight": {"notes": [text]},
                "podSets": [{"name": text, "role": "rollout"}],
            },
        }
    )


def of_screen(screen: type[LiveScreen | PlainScreen]) -> Callable[[Console, str], None]:
    def show(console: Console, text: str) -> None:
        moment = Moment(
            job="team/sums",
            plan=text,
            gpu_kinds={},
            predicted_step_seconds=1,
            max_staleness=2,
            events=(text,),
        )
        with screen(console) as shown:
            shown.show(moment)

    return show


PLACES: dict[str, Callable[[Console, str], Any]] = {
    "status": lambda console, text: console.print(
        status.listed([a_job(text)], with_namespace=True)
    ),
    "conditions": lambda console, text: console.print(status._conditions(a_job(text))),
    "head": lambda console, text: console.print(status._head(a_job(text))),
    "notices": lambda console, text: console.print(
        status.pairs("Progress", status.of_progress(a_job(text)))
    ),
    "preflight": lambda console, text: console.print(
        status.pairs("Preflight", status.of_preflight(a_job(text)))
    ),
    "pods": lambda console, text: console.print(status._pod_sets(a_job(text))),
    "top": lambda console, text: console.print(top.steps([a_job(text)], with_namespace=True)),
    "live display": of_screen(LiveScreen),
    "plain display": of_screen(PlainScreen),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_text_is_shown_as_text(place: str, text: str) -> None:
    out = io.StringIO()
    PLACES[place](PlainConsole(file=out, force_terminal=True, width=400), text)
    shown = out.getvalue()

    assert not [each for each in HARMFUL if each in text and each in shown]
    words = [each for each in text.split() if each.isprintable() and "[" in each]
    assert not [each for each in words if each not in shown]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_line_is_escaped(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(text)
    assert not [each for each in HARMFUL if each in capsys.readouterr().out]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_error_of_a_command_is_escaped(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def fails() -> None:
        raise click.ClickException(text)

    monkeypatch.setattr(Commands, "get_command", lambda *_: fails)
    shown = CliRunner().invoke(Commands("hetrl"), ["fails"])

    assert shown.exit_code == 1
    assert not [each for each in HARMFUL if each in shown.output]


def test_log_record_is_one_line_with_an_indented_traceback() -> None:
    formatter = OneLineFormatter("%(levelname)s %(message)s")
    error = ValueError("a\nINFO forged \x1b[2J")
    raised = (ValueError, error, None)
    record = logging.LogRecord("x", logging.INFO, "x", 1, "%s", ("b\nINFO forged",), raised)

    first, *others = formatter.format(record).split("\n")

    assert first == "INFO b\\nINFO forged"
    assert all(each.startswith("    ") for each in others)
    assert "\x1b" not in "".join(others)
