"""Pages that are written from code say what the code says."""

from pathlib import Path

import pytest

from tests.repo.references import texts


@pytest.mark.parametrize("path", sorted(texts()), ids=lambda path: path.stem)
def test_reference_page_is_what_the_code_says(path: Path) -> None:
    """`make crds` writes it."""
    assert path.read_text() == texts()[path]
