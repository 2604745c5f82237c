"""Commands in the documentation: they parse, and those without prerequisites run.

`make proof-walk` checks the quick start on a cluster.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from hetrl_cli.main import hetrl
from tests.repo.documented_commands import ROOT, DocumentedCommand, documented

_NEEDS_NO_CLUSTER = {"plan", "simulate"}
_PLACEHOLDER = re.compile(r"\[?[A-Z]{3,}\]?|(job|fleet)\.yaml|plan\.json|--diff")


def runs_here(command: DocumentedCommand) -> bool:
    """Tell whether it names nothing that a reader has to have.

    Those of the examples are planned, on the fleets that they name, by tests/api.
    """
    _, name, *rest = command.words
    is_whole = not any(_PLACEHOLDER.match(each) for each in rest)
    return name in _NEEDS_NO_CLUSTER and is_whole and command.page.suffix == ".md"


def test_pages_tell_of_every_program() -> None:
    for program, least in (("hetrl", 20), ("make", 5), ("helm", 5), ("kubectl", 5)):
        assert len(documented(program)) >= least, program


@pytest.mark.parametrize("command", documented("hetrl"), ids=str)
def test_hetrl_knows_the_command_and_its_options(command: DocumentedCommand) -> None:
    _, name, *arguments = command.words
    context = click.Context(hetrl)
    found = hetrl.get_command(context, name)
    assert found, f"there is no hetrl {name}"
    options, rest, _ = found.make_parser(click.Context(found)).parse_args(list(arguments))
    for each in (*rest, *(value for value in options.values() if isinstance(value, str))):
        assert not each.startswith("examples/") or (ROOT / each).exists(), each


@pytest.mark.parametrize("command", documented("make"), ids=str)
def test_make_has_the_target(command: DocumentedCommand) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = [each for each in command.words[1:] if not each.startswith("-") and "=" not in each]
    assert set(asked) <= targets


@pytest.mark.parametrize("command", documented("helm"), ids=str)
def test_chart_has_the_values_that_are_set(command: DocumentedCommand) -> None:
    values = yaml.safe_load((ROOT / "charts" / "hetrl" / "values.yaml").read_text())
    words = command.words
    settings = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    for path in re.findall(r"(?:^|,)([\w.]+)=", ",".join(settings)):
        assert has(values, path.split(".")), path


def has(values: Any, path: list[str]) -> bool:
    first, *rest = path
    return isinstance(values, dict) and first in values and (not rest or has(values[first], rest))


@pytest.mark.parametrize(
    "command", [*documented("kubectl"), *documented("docker"), *documented("sed")], ids=str
)
def test_files_that_others_are_given_exist(command: DocumentedCommand) -> None:
    for word in command.words:
        is_ours = word.startswith(("examples/", "charts/", "Dockerfile"))
        assert not is_ours or "$" in word or (ROOT / word).exists(), word


@pytest.mark.slow
@pytest.mark.parametrize("command", [*filter(runs_here, documented("hetrl"))], ids=str)
def test_command_prints_what_its_page_says(command: DocumentedCommand, tmp_path: Path) -> None:
    copy_examples(tmp_path / "examples", has_time="simulate" not in command.words)
    done = subprocess.run(
        [Path(sys.executable).with_name("hetrl"), *command.words[1:]],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    refuses = command.prints.startswith("Error: ")
    assert done.returncode == (2 if refuses else 0), done.stderr
    if refuses or "simulate" in command.words:
        # A seed and no clock: the same to the last digit.
        assert command.prints.strip() in "\n".join(
            line.rstrip() for line in (done.stderr if refuses else done.stdout).splitlines()
        )
    else:
        assert titles(command.prints) <= titles(done.stdout)


def copy_examples(folder: Path, *, has_time: bool) -> None:
    """Copy the examples; with time, searches end by their work on a busy machine as well."""
    shutil.copytree(ROOT / "examples", folder)
    for file in folder.glob("*.yaml") if has_time else ():
        objects = list(yaml.safe_load_all(file.read_text()))
        for each in objects:
            if each and each.get("kind") == "HetRLJob":
                each["spec"].setdefault("planning", {})["timeBudgetSeconds"] = 200
        file.write_text(yaml.safe_dump_all(objects))


def titles(printed: str) -> set[str]:
    return {line.rstrip() for line in printed.splitlines() if line and not line.startswith(" ")}
