"""Quantities as data and models write them: thousands, units, currencies, mixed numbers.

``plain`` gives a text one form, so that equal quantities are equal texts in most cases. A single
letter after a number is a variable (``2k``), not a unit, and a comma separates thousands only in
front of three digits (``-2,1`` has two values).
"""

import re

_CURRENCY = r"(?:\\?\$|[€£¥₹])"
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = rf"[-+]?\s*{_CURRENCY}?\s*[-+]?(?:{_DIGITS})(?:\s*/\s*\d+)?"
_SHORT_UNITS = (
    "mm|cm|dm|km|in|ft|yd|mi|kg|mg|lb|lbs|oz|ml|mL|cl|dl|kl|min|mins|hr|hrs|sec|secs|ms|mph|kph|am|"
    "pm|gb|mb|kb|GB|MB|KB|kW|kWh|Hz|sq|cm²|km²|ft²|USD|EUR|GBP"
)
_FUNCTIONS = "sin|cos|tan|cot|sec|csc|log|exp|sqrt|pi|mod"
_WORD = rf"(?:(?:{_SHORT_UNITS})\b|(?!(?:{_FUNCTIONS})\b)[^\W\d_]{{3,}})"
_POWER = r"(?:\^\{?[23]\}?|²|³)?"
_UNITS = (
    rf"(?:of\s+(?:an?|the)\s+)?{_WORD}\.?{_POWER}"
    rf"(?:(?:\s+|\s*/\s*)(?:{_WORD}\.?|per|of|a|h|s){_POWER}){{0,3}}"
)
# A unit may stand at the number's side: "5cm", "18dollars"; but "2xy" is a product.
_QUANTITY = re.compile(
    rf"(?P<number>{_NUMBER})\s*(?:(?P<percent>\\?%|percent\b)|(?:\s(?:{_UNITS})"
    rf"|(?:{_SHORT_UNITS})\b\.?|[^\W\d_]{{4,}}\b))?"
)
_PERCENT = re.compile(r"\s*(?:\\?%|percent)$")
_MIXED = re.compile(rf"([-+]?\d+)\s+(\d+)/(\d+)(?:\s+{_UNITS})?")
_SCIENTIFIC = re.compile(r"([-+]?\d+(?:\.\d+)?)[eE]([-+]?\d{1,3})")
_THOUSANDS = re.compile(
    r"(?<![\d.,])\d{1,3}(?:(?:\\[,;:!\s]|\{,\}|,\\!|~|[\u00a0\u2009\u202f])\d{3})+(?!\d)"
)
_SEPARATOR = re.compile(r"[^\d]+")
_LONGEST = 200
"""In characters: a longer text is no quantity, and a hostile one would take the patterns long."""

_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))


def plain(text: str) -> str:
    r"""Return a text without delimiters of mathematics, separators of thousands, and a unit.

    >>> plain(r"$2\,400$"), plain("18 dollars"), plain("2k"), plain("-2,1"), plain("1,250.50")
    ('2400', '18', '2k', '-2,1', '1250.50')
    """
    text = _THOUSANDS.sub(lambda found: _SEPARATOR.sub("", found[0]), _undelimited(text))
    if len(text) > _LONGEST:
        return text
    if found := _MIXED.fullmatch(text):
        return rf"{found[1]}\frac{{{found[2]}}}{{{found[3]}}}"
    if found := _SCIENTIFIC.fullmatch(text):
        return rf"{found[1]} \cdot 10^{{{int(found[2])}}}"
    found = _QUANTITY.fullmatch(text)
    if not found:
        return text
    number = re.sub(rf"{_CURRENCY}|[,\s+]", "", found["number"])
    return f"{number}%" if found["percent"] else number


def is_quantity(text: str) -> bool:
    """Tell whether a text is a number, perhaps with its unit or currency."""
    undelimited = _undelimited(text)
    return len(undelimited) <= _LONGEST and any(
        pattern.fullmatch(undelimited) for pattern in (_QUANTITY, _MIXED, _SCIENTIFIC, _THOUSANDS)
    )


def num_values(text: str) -> int:
    """Count the values of a list or a set, by its commas outside of inner brackets."""
    inner = re.sub(r"\\left|\\right|\\[{}]", "", plain(text)).strip("()[] ")
    depth, commas = 0, 0
    for character in inner:
        depth += (character in "([{") - (character in ")]}")
        commas += character == "," and depth == 0
    return commas + 1


def _undelimited(text: str) -> str:
    text = text.strip()
    for opening, closing in _DELIMITERS:
        inner = text[len(opening) : -len(closing)]
        is_inside = text.startswith(opening) and text.endswith(closing) and inner
        if is_inside and opening not in inner and closing not in inner:
            text = inner.strip()
    return text[:-1].rstrip() if text.endswith(".") and not text.endswith("..") else text
