"""Names of tests: the thing tested comes first, and the name stays short."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests", "e2e", "bench")
MOST_WORDS = 10

WORDS = {
    "a determiner": (
        "a an the this that these those each every all any some no neither either both another "
        "other others same such more most many few fewer less least much enough its their our "
        "your his her my"
    ),
    "a pronoun": (
        "i it they we you he she one ones nobody nothing somebody something everybody everything "
        "anybody anyone anything"
    ),
    "a question word": (
        "what who whom whose which where when why how whatever whoever wherever whenever whether"
    ),
    "a conjunction": (
        "and or but nor so if unless until till while as because since though although than once "
        "before after"
    ),
    "an adverb": "not never always only even just also too very again then here there",
    "an auxiliary": (
        "am is are was were be been being has have had do does did can could may might must shall "
        "should will would"
    ),
    "a preposition": (
        "of to in on at by for from with without into onto within between among over under during "
        "per beyond against through across"
    ),
}
KIND_OF_WORD = {word: kind for kind, words in WORDS.items() for word in words.split()}
"""Words with which no name of a thing begins."""


def problem_of(name: str) -> str:
    """Return what is wrong with the name of a test or of its module; empty if nothing is."""
    _, *words = name.split("_")
    if words[0] in KIND_OF_WORD:
        return f"{name} begins with {KIND_OF_WORD[words[0]]} instead of the thing tested"
    if len(words) > MOST_WORDS:
        return f"{name} has {len(words)} words, at most {MOST_WORDS} are allowed"
    return ""


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_of_tests_begin_with_the_thing_tested(folder: str) -> None:
    problems = [
        f"{path.relative_to(ROOT)}: {problem}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in (path.stem, *functions(path))
        if name.startswith("test_") and (problem := problem_of(name))
    ]
    assert not problems, "\n".join(problems)


def functions(path: Path) -> list[str]:
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [each.name for each in tree if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_lease_expiry_returns_prompt", ""),
        ("test_the_plan_is_stored", "begins with a determiner"),
        ("test_what_fits_is_offered", "begins with a question word"),
        ("test_" + "_".join(["plan"] * 10), ""),
        ("test_" + "_".join(["plan"] * 11), "has 11 words"),
    ],
)
def test_problems_of_names_are_found(name: str, said: str) -> None:
    assert said in problem_of(name)
    assert bool(said) is bool(problem_of(name))
