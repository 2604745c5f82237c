"""Standard terms in names, docstrings, comments and messages of the shipped code."""

from pathlib import Path

import pytest

from tests.repo.vocabulary import ROOT, SOURCES, uses, uses_on_page

ALLOWED = {
    # kopf's own names, which a subclass overrides.
    ("operator/hetrl_operator/kopf_adapter/initial_sync.py", "make_toggle"),
    ("operator/hetrl_operator/kopf_adapter/initial_sync.py", "drop_toggle"),
    ("operator/hetrl_operator/kopf_adapter/initial_sync.py", "drop_toggles"),
    ("operator/hetrl_operator/kopf_adapter/initial_sync.py", "toggle"),
    ("operator/hetrl_operator/kopf_adapter/initial_sync.py", "toggles"),
    ("operator/hetrl_operator/kopf_adapter/initial_sync.py", "ToggleSet"),
    # A field of the API, as users write it.
    ("operator/hetrl_api/pipeline.py", "lend_groups"),
    # Values of HETRL_DIE_AT, which kill records keep.
    ("runtime/hetrl_runtime/process/faults.py", "LEASE_DECIDED"),
    ("runtime/hetrl_runtime/process/faults.py", "COMMIT_DECIDED"),
    ("runtime/hetrl_runtime/process/faults.py", "EPOCH_DECIDED"),
}


@pytest.mark.parametrize("folder", SOURCES)
def test_shipped_code_uses_standard_terms(folder: str) -> None:
    found = [use for use in uses(ROOT / folder) if (use.path, use.word) not in ALLOWED]
    assert not found, "\n".join(map(str, found))


HISTORY = ("docs/decisions", "docs/results")
"""Pages that record a decision or a measurement in the words of their time."""

PAGES = [
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "examples/*.yaml",
        "charts/**/*.yaml",
        "charts/**/*.tpl",
    )
    for path in sorted(ROOT.glob(pattern))
    if not str(path.relative_to(ROOT)).startswith(HISTORY)
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_standard_terms(page: Path) -> None:
    assert not list(map(str, uses_on_page(page)))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('"""Whatever is said of a job."""\nwish = 1\n', ["wish"]),
        ("def carry_out(on_paper): ...\n", ["carry_out", "on_paper"]),
        ('"""What a job is told."""\n', ["What", "told"]),
        ("x = 1  # nobody looks at it\n", ["looks at", "nobody"]),
        ('"""The active plan of a job."""\nplan = 1\n', []),
    ],
)
def test_banned_words_are_found(source: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(source)
    assert sorted(use.word for use in uses(tmp_path)) == sorted(words)
