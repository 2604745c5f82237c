"""Responses as no one wants them: a reference answer cut, garbled, repeated, or made hostile."""

import random
from collections.abc import Callable

_PIECES = (
    "\\boxed{",
    "}",
    "\\frac{",
    "\\sqrt{",
    "\\left(",
    "\\right)",
    "$",
    "$$",
    "####",
    "^",
    "_",
    "{",
    "\\\\",
    "\\begin{pmatrix}",
    "&",
    "%",
    "=",
    "\\cdot",
    "\\infty",
    "\\text{",
    "\n",
    "\t",
    "\0",
    "\ufeff",
    "\u202e",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "٣",
    "½",
    "1e999",
    "-",
    "--",
    "NaN",
    "0x1F",
    "1/0",
    "9" * 50,
    "[" * 20,
    "(" * 20,
    "!!",
    "√",
    "π",
    "∑",
)

_HOSTILE = (
    "\\boxed{9^{9^{9^{9}}}}",
    "$10^{10^{10}}$",
    "\\boxed{2^{2^{2^{2^{2^{2}}}}}}",
    "$1000000!$",
    "\\int_0^{\\infty} x^{x^x} dx",
    "\\sum_{n=1}^{10^9} \\frac{1}{n^n}",
    "\\boxed{\\frac{1}{0}}",
    "\\binom{10^6}{5 \\cdot 10^5}",
    "\\sqrt[3]{\\sqrt{" + "\\sqrt{" * 40,
    "x^{100000} - 1 = 0",
    "\\lim_{x \\to 0} \\frac{\\sin x}{x}",
    "\\boxed{(x+y+z)^{500}}",
    "{" * 2_000,
    "(" * 2_000,
    "\\frac{" * 300,
    "1" * 20_000,
    "1+" * 2_000 + "1",
    "\\{1, 2, \\ldots, 10^8\\}",
)


def malformed(rng: random.Random, answer: str) -> str:
    """Return what became of an answer: one or two of the ways, drawn at random."""
    for way in rng.sample(_WAYS, k=rng.choice((1, 1, 2))):
        answer = way(rng, answer)
    return answer


def _cut(rng: random.Random, answer: str) -> str:
    return answer[: rng.randrange(len(answer) + 1)]


def _without_beginning(rng: random.Random, answer: str) -> str:
    return answer[rng.randrange(len(answer) + 1) :]


def _sprinkled(rng: random.Random, answer: str) -> str:
    for _ in range(rng.randint(1, 12)):
        place = rng.randrange(len(answer) + 1)
        answer = answer[:place] + rng.choice(_PIECES) + answer[place:]
    return answer


def _shuffled(rng: random.Random, answer: str) -> str:
    letters = list(answer)
    rng.shuffle(letters)
    return "".join(letters)


def _noise(rng: random.Random, answer: str) -> str:
    return "".join(chr(rng.choice((rng.randrange(32), rng.randrange(0xD7FF)))) for _ in answer)


def _again_and_again(rng: random.Random, answer: str) -> str:
    piece = answer[-rng.randint(1, 20) :]
    return answer + piece * rng.randint(50, 500)


def _pieces_alone(rng: random.Random, _: str) -> str:
    return "".join(rng.choices(_PIECES, k=rng.randint(1, 60)))


def _without_its_marker(_: random.Random, answer: str) -> str:
    return answer.replace("####", "")


def _digits_changed(rng: random.Random, answer: str) -> str:
    return "".join(rng.choice("0123456789.,/-") if each.isdigit() else each for each in answer)


def _hostile(rng: random.Random, answer: str) -> str:
    return rng.choice(("", answer + " ", answer + "\n#### ")) + rng.choice(_HOSTILE)


_COMMON: tuple[Callable[[random.Random, str], str], ...] = (
    _cut,
    _without_beginning,
    _sprinkled,
    _shuffled,
    _noise,
    _again_and_again,
    _pieces_alone,
    _without_its_marker,
    _digits_changed,
)
_WAYS = (*_COMMON, _hostile)
"""Hostile ones are as common as any other, a tenth: far more than a policy would write."""
