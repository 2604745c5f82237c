"""Texts from others reach terminals through one function that escapes them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "operator" / "hetrl_cli"
ESCAPES = {FOLDER / "say.py", FOLDER / "console.py"}
"""Modules that escape what they print."""

FORBIDDEN = {
    "click.echo": "hetrl_cli.say.say",
    "click.secho": "hetrl_cli.say.say",
    "click.echo_via_pager": "hetrl_cli.say.say",
    "print": "hetrl_cli.say.say",
    "sys.stdout.write": "hetrl_cli.say.say",
    "sys.stderr.write": "hetrl_cli.say.say",
    "rich.print": "hetrl_cli.console.console",
    "Console": "hetrl_cli.console.PlainConsole",
    "Text.from_markup": "rich.text.Text",
    "Text.from_ansi": "rich.text.Text",
}
"""Ways to print that escape nothing, and what to call instead."""


def unescaped(source: str) -> Iterator[str]:
    """Yield the calls that print without escaping."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "rich.markup":
            yield f"{node.lineno}: rich.markup is not needed: PlainConsole reads no markup"
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in FORBIDDEN:
            yield f"{node.lineno}: {name}: call {FORBIDDEN[name]}, which escapes texts of others"


def test_command_line_prints_only_what_is_escaped() -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{problem}"
        for path in sorted(FOLDER.rglob("*.py"))
        if path not in ESCAPES
        for problem in unescaped(path.read_text())
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("call", [*FORBIDDEN, "click.echo"])
def test_unescaped_print_is_found(call: str) -> None:
    assert list(unescaped(f"def f(text):\n    {call}(text)\n"))
