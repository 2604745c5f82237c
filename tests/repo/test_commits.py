"""Subjects of commits: imperative, and short enough for one line of a log."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULE_SINCE = "d28df7defc6ef8983c84286e13d623faca058d4f"
"""The last commit before the rule."""

MOST_CHARACTERS = 72
_IMPERATIVE_IN_S = {
    "Address",
    "Bypass",
    "Compress",
    "Discuss",
    "Express",
    "Pass",
    "Process",
    "Focus",
}
_IMPERATIVE_IN_ED = {"Embed", "Exceed", "Feed", "Need", "Proceed", "Seed", "Speed", "Shed"}


def fault_of(subject: str) -> str:
    """Say what is wrong with a subject; empty where nothing is."""
    first = subject.partition(" ")[0]
    if len(subject) > MOST_CHARACTERS:
        return f"has {len(subject)} characters, at most {MOST_CHARACTERS} are allowed"
    if not re.fullmatch(r"[A-Z][a-z]+", first):
        return "must begin with an imperative verb, without a prefix"
    if first.endswith("s") and first not in _IMPERATIVE_IN_S:
        return f"{first} is not imperative"
    if first.endswith("ed") and first not in _IMPERATIVE_IN_ED:
        return f"{first} is not imperative"
    return "must not end with a full stop" if subject.endswith(".") else ""


@pytest.mark.parametrize(
    ("subject", "is_allowed"),
    [
        ("Refuse models whose weights are missing", True),
        ("Process rewards in a pool", True),
        ("Wire: the page of today's code", False),
        ("Refused models whose weights are missing", False),
        ("Refuses models", False),
        ("Refuse models.", False),
        ("Refuse " + "x" * 70, False),
    ],
)
def test_subject_rule_tells_subjects_apart(subject: str, is_allowed: bool) -> None:
    assert (fault_of(subject) == "") is is_allowed


def test_subjects_of_new_commits_are_imperative() -> None:
    has_history = subprocess.run(
        ["git", "cat-file", "-e", RULE_SINCE], cwd=ROOT, check=False, capture_output=True
    )
    if has_history.returncode:
        pytest.skip("this checkout has no history of commits")
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%s", f"{RULE_SINCE}..HEAD"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    faults = {subject: fault for subject in log.stdout.splitlines() if (fault := fault_of(subject))}
    assert not faults
