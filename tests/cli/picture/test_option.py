import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hetrl_cli.main import hetrl

ROOT = Path(__file__).parents[3]


def ask(*arguments: str) -> Result:
    examples = ROOT / "examples"
    job, fleet = str(examples / "arithmetic.yaml"), str(examples / "local-fleet.yaml")
    return CliRunner().invoke(hetrl, ["plan", "-f", job, "-t", fleet, "--runnable", *arguments])


@pytest.mark.parametrize("name", ["plan.svg", "plan.PNG"])
@pytest.mark.slow
def test_picture_comes_beside_what_is_printed(tmp_path: Path, name: str) -> None:
    result = ask("-o", "json", "--picture", str(tmp_path / name))

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["kind"] == "HetRLPlan"
    assert f"drawn: {tmp_path / name}" in result.stderr
    head = (tmp_path / name).read_bytes()[:5]
    assert head == (b"<?xml" if name.endswith("svg") else b"\x89PNG\r")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["plan.pdf"], "--picture: plan.pdf ends in '.pdf'; allowed are .svg and .png", id="pdf"
        ),
        pytest.param(
            ["plan"], "--picture: plan has no suffix; allowed are .svg and .png", id="no suffix"
        ),
        pytest.param(["no/such/plan.svg"], "there is no folder no/such for plan.svg", id="folder"),
        pytest.param(["plan.svg", "--frontier", "3"], "--frontier makes several", id="frontier"),
    ],
)
def test_undrawable_picture_is_refused_before_the_search(arguments: list[str], said: str) -> None:
    result = ask("--picture", *arguments)

    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not result.stdout


def test_missing_matplotlib_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sheet", "canvas"):
        monkeypatch.delitem(sys.modules, f"hetrl_cli.picture.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = ask("--picture", str(tmp_path / "plan.svg"))

    assert result.exit_code == 1
    assert "--picture needs matplotlib: install hetrl with its report extra" in result.stderr


@pytest.mark.slow
def test_picture_is_not_drawn_without_a_plan(tmp_path: Path) -> None:
    examples = ROOT / "examples"
    result = CliRunner().invoke(
        hetrl,
        [
            "plan",
            "-f",
            str(examples / "infeasible.yaml"),
            "-t",
            str(examples / "hetrl-fleet.yaml"),
            "--picture",
            str(tmp_path / "plan.svg"),
        ],
    )
    assert result.exit_code == 2
    assert not list(tmp_path.iterdir())
