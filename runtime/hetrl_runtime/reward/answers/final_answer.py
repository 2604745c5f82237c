"""Location of the final answer in a response, or in a worked solution of the data.

Text before the last ``</think>`` is reasoning. In the rest the last of these is the answer: a box
of LaTeX, a line ``#### 42`` as in GSM8K, or ``<answer>42</answer>``. Without any, it is
what a sentence says to be the answer. A Markdown heading (``#### Step 2``) is none of these.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from hetrl_core.job.reward import AnswerForm
from hetrl_runtime.reward.answers.quantity import is_quantity


class Place(Enum):
    """The place where a final answer was found."""

    BOX = auto()
    LINE = auto()
    SENTENCE = auto()
    NOWHERE = auto()
    """The text is all that there is, for a parser to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalAnswer:
    """The text of a final answer, and where it was found."""

    text: str
    place: Place


# Responses may be hostile: no pattern here takes more than linear time.
_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)
_CODE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"^[ \t]*####(?!#)[ \t]*(\S.*|\s*+(?!#)\S.*|)$", re.MULTILINE)
_ELEMENT = re.compile(r"<(/?)answer>", re.IGNORECASE)
_BRACE = re.compile(r"(?P<box>\\(?:boxed|fbox)\s*\{)|\\.|(?P<open>\{)|(?P<close>\})", re.DOTALL)
_SHORT_BOX = re.compile(r"\\boxed\s+([-+]?\w+)")
_BETWEEN_BOXES = re.compile(r"[\s$,;]*+(?:and|or)?[\s$,;]*+")

_LABEL = re.compile(
    r"(?:so|thus|hence|therefore|,|the|final|\s)*\b(?:answer|result|solution)\b"
    r"[\s*]*(?:\b(?:is|are|equals)\b)?[\s*:=]*",
    re.IGNORECASE,
)
_SENTENCES = (
    re.compile(
        r"\banswer\b[^.\n:=]{0,40}?(?:\b(?:is|are|equals)\b|[:=])[\s*:=]*+"
        r"([^\n]{0,80}?)[\s*]{0,9}(?:[.!](?=\s|$)|\n|$)",
        re.IGNORECASE,
    ),
    re.compile(r"答案(?:应该|就|应)?(?:是|为|等于|[\uff1a:=])+\s*([^。\uff0c\uff1b\n]+)"),
)
_LONGEST_CHOICE = 40
_CHOICE = re.compile(r"\(?([A-Z])\)?", re.IGNORECASE)

# Headings of Markdown: "Step 2", "A note", "1. Rows", "3 Steps".
_HEADING = re.compile(
    r"(?!(?:sin|cos|tan|log|ln|exp|sqrt|pi)\b)[^\W\d_]{2,}"
    r"|[AI]\s+[a-z]"
    r"|[-+]?[\d.,/]+\s*[.):]\s+[^\W\d_]"
    r"|[-+]?[\d.,/]+\s+[A-Z][a-z]"
)
_NUMBERED_HEADING = re.compile(
    r"^[ \t]*#{1,6}[ \t*]*(?:(?:step|part|case|section|phase|stage|method|option|example)\s+)?"
    r"\d+\**(?:\s*[.):].*|[ \t]*)$",
    re.IGNORECASE | re.MULTILINE,
)
_WORD = re.compile(r"(?<!\\)\b[^\W\d_]{2,}")
_MOST_WORDS = 4
"""A line of more is a sentence, and a parser reads it with the rest of the text."""


def final_answer(
    text: str,
    *,
    reference: str = "",
    num_values: int = 1,
    forms: Collection[AnswerForm] = (),
) -> FinalAnswer:
    r"""Return the final answer of a response.

    Args:
        text: the response.
        reference: the expected text; a last line ``#### blue whale`` is an answer only where it
            says this, since a heading looks the same.
        num_values: of the reference; where it has several, boxes beside each other are one answer.
        forms: the only forms that count; none: all, and without any of them the whole text.

    >>> final_answer(r"So \boxed{12}. No, it is \boxed{13}.").text
    '13'
    """
    rest = without_reasoning(text)
    by_form = {
        AnswerForm.BOXED: _boxes(rest, num_values),
        AnswerForm.HASH_LINE: _lines(rest, reference),
        AnswerForm.ANSWER_TAG: _elements(rest),
    }
    found = [each for form in forms or AnswerForm for each in by_form[form]]
    if found:
        return max(found, key=lambda each: each[0])[1]
    if forms:
        return FinalAnswer(text="", place=Place.NOWHERE)
    without_headings = _NUMBERED_HEADING.sub("", rest).strip()
    return _sentence(rest) or FinalAnswer(text=without_headings, place=Place.NOWHERE)


def solution_answer(solution: str) -> FinalAnswer:
    """Return the final answer of a worked solution, which people wrote: headings are rare."""
    found = final_answer(solution)
    if found.place is not Place.NOWHERE:
        return found
    if "####" in solution:
        return FinalAnswer(text=solution.rpartition("####")[2].strip(), place=Place.LINE)
    said = [each[1].strip() for each in _said(found.text) if each[1].strip()]
    return FinalAnswer(text=said[-1], place=Place.SENTENCE) if said else found


def marked_line(text: str) -> str:
    """Return what the last line ``#### ...`` says, of the next line where that is empty.

    Without such a line this is the whole text, after its reasoning.
    """
    rest = without_reasoning(text)
    said = [line for _, line in _marks(rest) if line]
    return said[-1] if said else rest.strip()


def without_reasoning(text: str) -> str:
    """Return what stands behind the last ``</think>``, or before a ``<think>`` without an end."""
    tags = list(_THINK.finditer(text))
    ends = [tag.end() for tag in tags if tag[1]]
    start = ends[-1] if ends else 0
    unfinished = [tag.start() for tag in tags if not tag[1] and tag.start() >= start]
    return text[start : unfinished[0] if unfinished else None]


def choice(text: str) -> str:
    r"""Return the letter of a multiple choice, ``(B)`` or ``\text{B}``; empty if it is none."""
    if len(text) > _LONGEST_CHOICE:
        return ""
    inner = re.sub(r"\\(?:text|textbf|mathrm)\s*\{(.*)\}", r"\1", text).strip("*. ")
    found = _CHOICE.fullmatch(inner)
    return found[1].upper() if found and (inner.startswith("(") or inner.isupper()) else ""


def _boxes(text: str, num_values: int) -> Iterator[tuple[int, FinalAnswer]]:
    """Yield the last box, with those beside it where several values are wanted."""
    boxes = sorted([*_braced_boxes(text), *_short_boxes(text)])
    if not boxes:
        return
    start, _, content = boxes[-1]
    beside = [content]
    if num_values > 1:
        for before, after in zip(boxes[-2::-1], boxes[:0:-1], strict=True):
            if not _BETWEEN_BOXES.fullmatch(text[before[1] : after[0]]):
                break
            beside.insert(0, before[2])
    if len(beside) > 1:
        several = " and ".join(f"$\\boxed{{{each}}}$" for each in beside)
        yield start, FinalAnswer(text=several, place=Place.LINE)
    else:
        yield start, FinalAnswer(text=content.strip(), place=Place.BOX)


def _braced_boxes(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and content of each box whose braces are closed, outermost ones only."""
    opened: list[re.Match[str]] = []
    closed: list[tuple[int, int, str]] = []
    for brace in _BRACE.finditer(text):
        if brace["box"] or brace["open"]:
            opened.append(brace)
        elif brace["close"] and opened and (opening := opened.pop())["box"]:
            content = text[opening.end() : brace.start()]
            closed.append((opening.start(), brace.end(), content))
    end = 0
    for box in sorted(closed):
        if box[0] >= end:
            yield box
            end = box[1]


def _short_boxes(text: str) -> Iterator[tuple[int, int, str]]:
    return ((found.start(), found.end(), found[1]) for found in _SHORT_BOX.finditer(text))


def _lines(text: str, reference: str) -> Iterator[tuple[int, FinalAnswer]]:
    marks = list(_marks(text))
    for start, line in marks:
        if value := _value(line):
            yield start, FinalAnswer(text=value, place=Place.LINE)
    if marks and reference and marks[-1][1] == reference:
        yield marks[-1][0], FinalAnswer(text=reference, place=Place.LINE)


def _marks(text: str) -> Iterator[tuple[int, str]]:
    """Yield start and text of each line that begins with exactly four ``#``, outside code."""
    outside = _CODE.sub(lambda code: " " * len(code[0]), text)
    for found in _MARK.finditer(outside):
        yield found.start(), found[1].strip().strip("*").strip()


def _value(line: str) -> str:
    """Return the answer that a line says; empty where it is a heading or a sentence."""
    value = _LABEL.sub("", line, count=1).strip() if _LABEL.match(line) else line
    if _HEADING.match(value) or len(_WORD.findall(value)) > _MOST_WORDS:
        return ""
    return value


def _elements(text: str) -> Iterator[tuple[int, FinalAnswer]]:
    opening: re.Match[str] | None = None
    for tag in _ELEMENT.finditer(text):
        if not tag[1]:
            opening = tag
        elif opening:
            # A box inside begins later, and so is what counts.
            content = text[opening.end() : tag.start()].strip()
            yield opening.start(), FinalAnswer(text=content, place=Place.LINE)
            opening = None


def _sentence(text: str) -> FinalAnswer | None:
    """Return what a sentence says to be the answer, where that is a number or a choice."""
    clear = [said for _, said in _said(text) if choice(said) or is_quantity(said)]
    return FinalAnswer(text=clear[-1], place=Place.SENTENCE) if clear else None


def _said(text: str) -> list[tuple[int, str]]:
    found = (each for pattern in _SENTENCES for each in pattern.finditer(text))
    return sorted((each.start(1), each[1].strip().strip("*").strip()) for each in found)
