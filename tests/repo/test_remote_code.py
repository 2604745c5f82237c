"""Models and tokenizers are loaded without the code of their repositories."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADS = {"from_pretrained", "from_config"}


def unguarded(source: str) -> Iterator[str]:
    """Yield the loads that may ask whether to run a repository's code."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of = ast.unparse(node.func.value).rpartition(".")[2]
        if node.func.attr not in LOADS or not of.startswith("Auto"):
            continue
        given = {each.arg: ast.unparse(each.value) for each in node.keywords}
        if given.get("trust_remote_code") != "False":
            yield f"{node.lineno}: {ast.unparse(node.func)} needs trust_remote_code=False"


def test_loads_never_run_code_of_a_repository() -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{problem}"
        for path in sorted((ROOT / "runtime").rglob("*.py"))
        for problem in unguarded(path.read_text())
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "call",
    [
        "AutoTokenizer.from_pretrained(folder)",
        "transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)",
        "AutoModelForCausalLM.from_config(config, trust_remote_code=settings.trust)",
    ],
)
def test_unguarded_load_is_found(call: str) -> None:
    assert list(unguarded(f"found = {call}\n"))
