"""The proof of mutants: which tests run for a file, which records count, what the page says."""

from pathlib import Path
from typing import Any

import pytest

from bench.proof.mutants import records
from bench.proof.mutants.checkout_copy import Outcome, Trial
from bench.proof.mutants.equivalents import Equivalent, equivalents
from bench.proof.mutants.mutant import Mutant, changes_operator
from bench.proof.mutants.page import Sample, page
from bench.proof.mutants.quick_tests import SUBJECTS, stages
from bench.proof.mutants.records import Records

MEMORY = "operator/hetrl_planner/cost/memory.py"


def a_mutant(number: int = 0, **changes: Any) -> Mutant:
    fields: dict[str, Any] = {
        "path": MEMORY,
        "line_number": 7,
        "operator": "ReplaceBinaryOperator_Mul_Div",
        "line": f"x = {number} * y",
        "occurrence": 0,
        "mutated_line": f"x = {number} / y",
        **changes,
    }
    return Mutant(**fields)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        pytest.param("a * b", "a / b", True, id="a product"),
        pytest.param("a += b", "a -= b", True, id="a sum in place"),
        pytest.param("0 < a < b", "0 < a <= b", True, id="the second of two comparisons"),
        pytest.param("a and not b", "a and  b", True, id="a negation"),
        pytest.param("def f(a, *, b): ...", "def f(a, /, b): ...", False, id="parameters"),
        pytest.param("f(*a)", "f(/a)", False, id="no Python"),
    ],
)
def test_operator_changes_are_recognised(before: str, after: str, changes: bool) -> None:
    assert changes_operator(before, after) is changes


def test_subjects_are_files_with_tests() -> None:
    for subject in SUBJECTS:
        assert list(subject.files()), subject.code
        assert list(subject.test_files()), subject.code


@pytest.mark.parametrize(
    ("path", "first"),
    [
        (MEMORY, "tests/planner/test_cost_memory.py"),
        ("core/hetrl_core/staleness.py", "tests/core/test_staleness.py"),
        ("operator/hetrl_operator/decide/pods/restarts.py", "test_decide_restarts.py"),
        ("runtime/hetrl_runtime/coordinator/rules/state.py", "test_state.py"),
    ],
)
def test_tests_of_the_file_itself_run_first(path: str, first: str) -> None:
    assert str(stages(path)[0][0]).endswith(first)


def test_stages_have_each_test_once() -> None:
    for subject in SUBJECTS:
        path = str(next(iter(subject.files())))
        tests = [test for stage in stages(path) for test in stage]
        assert sorted(tests) == sorted(subject.test_files())


@pytest.mark.parametrize(
    ("outcome", "today", "counts"),
    [
        pytest.param(Outcome.KILLED, ("same", "same"), True, id="killed"),
        pytest.param(Outcome.KILLED, ("same", "other"), True, id="killed, and tests were added"),
        pytest.param(Outcome.KILLED, ("other", "same"), False, id="killed in other code"),
        pytest.param(Outcome.SURVIVED, ("same", "same"), True, id="survived"),
        pytest.param(Outcome.SURVIVED, ("same", "other"), False, id="survived other tests"),
    ],
)
def test_record_counts_while_it_is_of_the_same_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
    today: tuple[str, str],
    counts: bool,
) -> None:
    monkeypatch.setattr(records, "commit", lambda: "0123456789ab")
    monkeypatch.setattr(records, "_code", lambda _: "same")
    monkeypatch.setattr(records, "_tests", lambda _: "same")
    Records(tmp_path / "records.json").add(a_mutant(), Trial(outcome=outcome))
    monkeypatch.setattr(records, "_code", lambda _: today[0])
    monkeypatch.setattr(records, "_tests", lambda _: today[1])

    found = Records(tmp_path / "records.json").of(a_mutant(line_number=9))

    assert (found is not None) is counts


def test_page_counts_all_but_equivalent_mutants() -> None:
    drawn = [a_mutant(number) for number in range(6)]
    outcomes = [Outcome.KILLED, Outcome.KILLED, Outcome.TIMEOUT, Outcome.SURVIVED, Outcome.SURVIVED]
    sample = Sample(
        drawn=drawn,
        records={
            each.key: {"outcome": outcome, "commit": "0123456789ab"}
            for each, outcome in zip(drawn, outcomes, strict=False)
        },
        equivalents=[
            Equivalent(
                path=MEMORY,
                operator=drawn[4].operator,
                line=drawn[4].line,
                mutated_line=drawn[4].mutated_line,
                reason="y is 1",
            )
        ],
    )

    text = page(sample, seed=1)

    assert "**3 of 4 killed (75.0%), 1 survived**, 1 equivalent, 1 not tried yet" in text
    assert f"- `{MEMORY}:7`: `x = 3 * y` → `x = 3 / y`\n" in text
    assert f"- `{MEMORY}:7`: `x = 4 * y` → `x = 4 / y`: y is 1\n" in text
    assert not sample.holds


def test_equivalent_mutants_are_of_lines_that_exist() -> None:
    for each in equivalents():
        lines = [line.strip() for line in Path(each.path).read_text().splitlines()]
        assert each.line in lines, each
        assert each.reason
