"""The contract of a preflight: what a report carries within a termination message."""

import pytest

from hetrl_core.job.architecture import from_hugging_face
from hetrl_core.preflight import (
    MAX_MESSAGE_CHARACTERS,
    MAX_NOTES,
    MAX_REPORT_BYTES,
    PreflightReport,
    report_from_json,
    report_to_json,
)
from tests.model_folders import TINY_QWEN3


def test_report_is_read_back_as_it_was_written() -> None:
    report = PreflightReport(
        passed=True, notes=("2 of 4",), architecture=from_hugging_face(TINY_QWEN3)
    )

    assert report_from_json(report_to_json(report)) == report


@pytest.mark.parametrize("letter", ["x", "€", "😀", "\N{COMBINING ACUTE ACCENT}"])
def test_report_fits_a_termination_message(letter: str) -> None:
    text = letter * 9000
    report = PreflightReport(
        passed=False, reason="DataInvalid", message=text, notes=(text,) * (MAX_NOTES + 5)
    )

    written = report_to_json(report)

    assert len(written.encode()) <= MAX_REPORT_BYTES
    assert report_from_json(written).message.startswith(letter * 100)


def test_texts_of_a_report_become_short_lines() -> None:
    text = '{"passed": false, "reason": "DataInvalid", "message": "a\\nb\\u001b[31m c"}'

    assert report_from_json(text).message == "a b [31m c"
    long = report_from_json(text.replace("a\\n", "a" * 2000))
    assert len(long.message) == MAX_MESSAGE_CHARACTERS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "not a preflight report", id="empty"),
        pytest.param("Traceback (most recent call last)", "not a preflight report", id="log"),
        pytest.param("{}", "passed", id="no-verdict"),
        pytest.param('{"passed": false}', "reason", id="no-reason"),
        pytest.param('{"passed": false, "reason": "all done"}', "reason", id="no-such-reason"),
        pytest.param('{"passed": true, "notes": 3}', "notes", id="wrong-type"),
        pytest.param('{"passed": true}' + " " * 5000, "at most 4096 bytes", id="too-long"),
    ],
)
def test_text_that_is_no_report_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        report_from_json(text)
