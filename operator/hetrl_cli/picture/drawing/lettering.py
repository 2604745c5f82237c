"""Text measurement: the room that text takes, line breaks and truncation.

Widths are those of DejaVu Sans, with which PNGs are drawn and which is wider than the fonts
that a viewer of an SVG may put in its place.
"""

_FIRST = " "
# Thousandths of the font's size, from its table of advances, from the blank to the tilde.
_ADVANCES = (
    318,
    401,
    460,
    838,
    636,
    950,
    780,
    275,
    390,
    390,
    500,
    838,
    318,
    361,
    318,
    337,
    636,
    636,
    636,
    636,
    636,
    636,
    636,
    636,
    636,
    636,
    337,
    337,
    838,
    838,
    838,
    531,
    1000,
    684,
    686,
    698,
    770,
    632,
    575,
    775,
    752,
    295,
    295,
    656,
    557,
    863,
    748,
    787,
    603,
    787,
    695,
    635,
    611,
    732,
    684,
    989,
    685,
    611,
    685,
    390,
    337,
    390,
    838,
    500,
    500,
    613,
    635,
    550,
    635,
    615,
    352,
    635,
    634,
    278,
    278,
    579,
    278,
    974,
    634,
    612,
    635,
    635,
    411,
    521,
    392,
    634,
    592,
    818,
    592,
    592,
    525,
    636,
    337,
    636,
    838,
)
_OTHER = 1000
"""Of characters beyond ASCII: none of those that we write is wider."""

BOLD = 1.2
"""How much wider a bold line is at most, of those with letters and digits."""

SMALLEST = 6.0
TITLE, HEADING, BODY, SMALL = 20.0, 13.0, 11.0, 10.0


def text_width(text: str, size: float, *, is_bold: bool = False) -> float:
    """Return the pixels that a line takes at most."""
    places = (ord(character) - ord(_FIRST) for character in text)
    advances = (_ADVANCES[at] if 0 <= at < len(_ADVANCES) else _OTHER for at in places)
    return sum(advances) / 1000 * size * (BOLD if is_bold else 1)


def fitted(text: str, size: float, *, room: float) -> float:
    """Return the largest size up to ``size`` at which a line fits."""
    return max(SMALLEST, min(size, room / max(1e-9, text_width(text, 1.0))))


def shortened(text: str, size: float, *, room: float, is_bold: bool = False) -> str:
    """Cut the middle out of a name that is too long; its end is what tells machines apart."""
    if text_width(text, size, is_bold=is_bold) <= room:
        return text
    for kept in range(len(text) - 1, 1, -1):
        cut = f"{text[: kept // 2]}…{text[len(text) - (kept - kept // 2) :]}"
        if text_width(cut, size, is_bold=is_bold) <= room:
            return cut
    return "…"


def wrapped(text: str, size: float, *, room: float) -> list[str]:
    """Break a sentence into lines that fit; a single word may be longer."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
