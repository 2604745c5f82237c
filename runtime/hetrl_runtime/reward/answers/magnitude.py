"""Detection, from the text alone, of mathematics too large to evaluate in time.

No reference answer has ten thousand digits, five hundred terms, or ten brackets that open at one
place, so what would is wrong without a look; working it out would take a verifier all the time
and memory that there is, and reading it a hundred times as long as any answer.
"""

import functools
import math
import re
from collections.abc import Iterator

_MOST_DIGITS = 10_000
_LARGEST_FACTORIAL = 3_000
"""Has 9,131 digits."""

_LARGEST_POWER_OF_A_SUM = 100
_MOST_OPERATORS = 500

# A run of digits is matched once, from its beginning: else long ones take quadratic time.
_TOWER = re.compile(r"(?<!\d)\d++(?:\.\d++)?(?:\s*(?:\^|\*\*)\s*[{(]*+\s*\d++)+")
_FACTORIAL = re.compile(r"(?<!\d)(\d++)\s*!")
_POWER_OF_A_SUM = re.compile(r"[a-z]\s*\)\s*(?:\^|\*\*)\s*[{(]*\s*(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CALCULATION = re.compile(r"(?<![\d.])(?:\d[\d.]*+\s*+[-+*/]\s*+)++")
_OPERATOR = re.compile(r"[-+*/]")
# The first of these takes a parser of LaTeX a tenth of a second and more.
_BRACKETS = re.compile(r"(?:(?:\\left\s*+)?[(\[{]\s*+){10}")


def is_beyond_reason(text: str) -> bool:
    r"""Tell whether an expression holds what is too large to work out, too long or too deep.

    >>> is_beyond_reason(r"\boxed{9^{9^{9}}}"), is_beyond_reason("2^{10}"), is_beyond_reason("8!")
    (True, False, False)
    """
    return (
        _BRACKETS.search(text) is not None
        or any(_num_operators(found[0]) > _MOST_OPERATORS for found in _CALCULATION.finditer(text))
        or any(_digits_of_tower(found[0]) > _MOST_DIGITS for found in _TOWER.finditer(text))
        or any(number > _LARGEST_FACTORIAL for number in _numbers(_FACTORIAL, text))
        or any(number > _LARGEST_POWER_OF_A_SUM for number in _numbers(_POWER_OF_A_SUM, text))
    )


def _num_operators(calculation: str) -> int:
    return len(_OPERATOR.findall(calculation))


def _digits_of_tower(tower: str) -> float:
    """Return how many digits ``a^b^c`` has, read from its top; infinity where that overflows."""
    first, *exponents = (float(each) for each in _NUMBER.findall(tower))
    try:
        return functools.reduce(lambda top, base: base**top, reversed(exponents)) * _log10(first)
    except OverflowError:
        return math.inf


def _log10(number: float) -> float:
    return math.log10(number) if number > 1 else 0.0


def _numbers(pattern: re.Pattern[str], text: str) -> Iterator[float]:
    return (float(found[1]) for found in pattern.finditer(text))
