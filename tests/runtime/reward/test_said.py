"""Text of reward code on its way into a log."""

import pytest

from hetrl_core.escape import MAX_LINE_CHARS, one_line
from hetrl_runtime.reward.error_text import described


class RudeError(Exception):
    def __str__(self) -> str:
        raise SystemExit("no message")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain text, größer 中文", "plain text, größer 中文"),
        ("two\nlines\r\n", r"two\nlines\r\n"),
        ("\x1b[31mred\x1b]0;title\x07", r"\x1b[31mred\x1b]0;title\x07"),
        ("next\x85line\u2028paragraph\u2029", r"next\x85line\u2028paragraph\u2029"),
        ("\u202eright to left", r"\u202eright to left"),
        ("\x9b2Jone byte", r"\x9b2Jone byte"),
        ("half \ud800 a character", r"half \ud800 a character"),
        ("null\x00", r"null\x00"),
        (["a\nb"], r"['a\nb']"),
        (None, "None"),
    ],
)
def test_single_line_escapes_control_characters(text: object, line: str) -> None:
    assert one_line(text) == line
    assert one_line(line) == line


@pytest.mark.parametrize("text", ["x" * 100_000, "\n" * 199, "x" * 199 + "\n", "\U000e0001" * 300])
def test_single_line_is_cut_short(text: str) -> None:
    assert len(one_line(text)) == MAX_LINE_CHARS
    assert one_line(text).endswith("...")


def test_single_line_keeps_as_much_as_fits() -> None:
    assert one_line("x" * MAX_LINE_CHARS) == "x" * MAX_LINE_CHARS


def test_described_survives_an_exception_that_raises() -> None:
    assert described(RudeError()) == "RudeError: its message cannot be read"
    assert described(ValueError("a\nb")) == "ValueError: a\nb"
    assert len(described(ValueError("x" * 100_000))) < 300
