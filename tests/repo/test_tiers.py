"""The tiers of ``make test``: what is skipped, what fails, and what the table says."""

from pathlib import Path

import pytest

from tests import tiers
from tests.repo.documented_commands import ROOT
from tests.tiers import TESTS_ALL, Tier, TierResult, counts, main, table


def test_tier_targets_are_targets_of_make() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert [each.target for each in tiers.TIERS if f"\n{each.target}:" not in makefile] == []


@pytest.mark.parametrize(("requires_all", "code"), [("", 0), ("0", 0), ("1", 1)])
def test_skipped_tier_fails_only_where_all_must_run(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    requires_all: str,
    code: int,
) -> None:
    monkeypatch.setenv(TESTS_ALL, requires_all)
    monkeypatch.setattr(tiers, "TIERS", (Tier(target="e2e", needs=(lambda: "Go", lambda: "")),))

    assert main() == code

    shown = capfd.readouterr().out
    assert "skipped: make e2e needs Go\n" in shown
    assert "e2e           skipped     0:00  needs Go\n" in shown


def test_failed_tier_does_not_keep_later_ones_from_running(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tiers, "TIERS", (Tier(target="no-such-target"), Tier(target="help")))

    assert main() == 1

    assert [line.split()[:2] for line in capfd.readouterr().out.splitlines()[-3:-1]] == [
        ["no-such-target", "failed"],
        ["help", "passed"],
    ]


def test_table_adds_times() -> None:
    results = [
        TierResult(target="check", outcome="passed", seconds=61.0, tests="3 passed"),
        TierResult(target="docs", outcome="failed", seconds=5.9),
    ]
    assert table(results).splitlines() == [
        "tier          outcome     time  tests",
        "check         passed      1:01  3 passed",
        "docs          failed      0:05",
        "total                     1:06",
    ]


def test_counts_are_those_of_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    suite = '<testsuite tests="9" skipped="2" failures="1" errors="1"/>'
    report.write_text(f"<testsuites>{suite}</testsuites>")

    assert counts(report) == "5 passed, 2 skipped, 2 failed"
    assert counts(tmp_path / "none.xml") == ""
