r"""Answers as data sets of mathematics have them, right ones and wrong ones, from a seed.

Each form yields a reference, another way to write it, and an answer that is not equal to it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from hetrl_runtime.data.prompt import Prompt
from hetrl_runtime.data.reference_answer import target

Written = tuple[str, str, str]
"""Reference, an equal answer, and a wrong one."""

_TEXTS = ("Tuesday", "parallelogram", "east", "odd", "Evelyn", "ellipse", "neither", "seven")
_UNITS = (r"\text{ cm}", r"\text{ square feet}", " dollars", r"\text{ minutes}", r"\%", "^\\circ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response to judge, with what it is worth."""

    form: str
    response: str
    reference: str
    is_right: bool


def math_answers(rng: random.Random, count: int) -> list[Answer]:
    """Return answers in the forms of MATH, in turn; half of them are right."""
    answers = []
    for number in range(count):
        make = FORMS[number % len(FORMS)]
        reference, equal, wrong = make(rng)
        is_right = rng.random() < 0.5
        boxed = rf"\boxed{{{equal if is_right else wrong}}}"
        answers.append(
            Answer(
                form=make.__name__.strip("_"),
                response=rng.choice(_SENTENCES).format(boxed),
                reference=reference,
                is_right=is_right,
            )
        )
    return answers


def gsm8k_answers(rng: random.Random, problems: Sequence[Prompt]) -> list[Answer]:
    """Return a response to each problem: its solution, or another's, in one of several forms."""
    answers = []
    for problem in problems:
        other = problem if rng.random() < 0.5 else rng.choice(problems)
        said = target(other.answer)
        answers.append(
            Answer(
                form="GSM8K",
                response=rng.choice((other.answer, *(each.format(said) for each in _SAID))),
                reference=problem.answer,
                is_right=_number(said) == _number(target(problem.answer)),
            )
        )
    return answers


_SENTENCES = (
    "Hence the answer is ${}$.",
    "We simplify both sides.\n\n$$ {} $$",
    "#### Step 2: Conclude\n\nTherefore {}.",
    "<think>Could it be \\boxed{{0}}? No.</think>\nThe result is {}",
    "First I found \\boxed{{-999}}, which is wrong. It is {}.",
)
_SAID = (r"So \boxed{{{}}}.", "The answer is {}.", "#### {}", "<answer>{}</answer>", "**{}**")


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _fraction(rng: random.Random) -> Written:
    top, bottom, times = rng.randint(1, 60), rng.randint(2, 40), rng.randint(2, 5)
    equal = rng.choice(
        (
            rf"\dfrac{{{top}}}{{{bottom}}}",
            rf"\frac{{{top * times}}}{{{bottom * times}}}",
            f"{top}/{bottom}",
        )
    )
    return rf"\frac{{{top}}}{{{bottom}}}", equal, rf"\frac{{{top + 1}}}{{{bottom}}}"


def _tuple(rng: random.Random) -> Written:
    first, second, third = rng.sample(range(-20, 21), 3)
    return (
        f"({first}, {second}, {third})",
        rf"\left( {first},{second}, {third} \right)",
        f"({second}, {first}, {third})",
    )


def _interval(rng: random.Random) -> Written:
    low = rng.randint(-30, 10)
    high = low + rng.randint(1, 20)
    return (
        rf"({low},{high}) \cup ({high},\infty)",
        rf"\left({low}, {high}\right)\cup\left({high}, \infty\right)",
        rf"({low},{high + 1}) \cup ({high + 1},\infty)",
    )


def _set(rng: random.Random) -> Written:
    values = rng.sample(range(-40, 41), rng.randint(3, 8))
    shuffled = rng.sample(values, len(values))
    return _braces(values), _braces(shuffled), _braces([*values[:-1], 99])


def _braces(values: Sequence[int]) -> str:
    return rf"\{{{', '.join(map(str, values))}\}}"


def _polynomial(rng: random.Random) -> Written:
    one, other = rng.randint(1, 12), rng.randint(1, 12)
    linear, constant = one + other, one * other
    return (
        f"x^2 + {linear}x + {constant}",
        f"(x+{one})(x+{other})",
        f"x^2 + {linear}x + {constant + 1}",
    )


def _power(rng: random.Random) -> Written:
    base, exponent = rng.randint(1, 3), rng.randint(2, 6)
    return (
        f"(x^2 + {2 * base}x + {base * base})^{exponent}",
        f"(x+{base})^{{{2 * exponent}}}",
        f"(x+{base})^{{{2 * exponent + 1}}}",
    )


def _root(rng: random.Random) -> Written:
    outside, inside = rng.randint(2, 9), rng.choice((2, 3, 5, 7, 11))
    return (
        rf"{outside}\sqrt{{{inside}}}",
        rf"\sqrt{{{outside * outside * inside}}}",
        rf"{outside}\sqrt{{{inside + 2 if inside != 7 else 6}}}",
    )


def _rational_function(rng: random.Random) -> Written:
    one, other = rng.sample(range(1, 9), 2)
    return (
        rf"\frac{{1}}{{x+{one}}} + \frac{{1}}{{x+{other}}}",
        rf"\frac{{2x+{one + other}}}{{(x+{one})(x+{other})}}",
        rf"\frac{{2x+{one + other + 1}}}{{(x+{one})(x+{other})}}",
    )


def _matrix(rng: random.Random) -> Written:
    one, two, three, four = (rng.randint(-9, 9) for _ in range(4))
    written = r"\begin{{pmatrix}} {} & {} \\ {} & {} \end{{pmatrix}}"
    return (
        written.format(one, two, three, four),
        rf"\begin{{bmatrix}}{one}&{two}\\{three}&{four}\end{{bmatrix}}",
        written.format(one, two, three, four + 1),
    )


def _unit(rng: random.Random) -> Written:
    value, unit = rng.randint(2, 900), rng.choice(_UNITS)
    return f"{value}{unit}", f"{value}{unit}", f"{value + 1}{unit}"


def _text(rng: random.Random) -> Written:
    right, wrong = rng.sample(_TEXTS, 2)
    return rf"\text{{{right}}}", right, rf"\text{{{wrong}}}"


def _choice(rng: random.Random) -> Written:
    right, wrong = rng.sample("ABCDE", 2)
    return rf"\text{{({right})}}", f"({right})", rf"\textbf{{({wrong})}}"


def _thousands(rng: random.Random) -> Written:
    value = rng.randint(1_000, 9_000_000)
    return f"{value}", f"{value:,}".replace(",", r"{,}"), f"{value + 1:,}"


def _equation(rng: random.Random) -> Written:
    slope, constant = rng.randint(2, 9), rng.randint(1, 20)
    return f"y = {slope}x + {constant}", f"y = {constant} + {slope}x", f"y = {slope}x - {constant}"


def _angle(rng: random.Random) -> Written:
    top, bottom = rng.randint(1, 11), rng.choice((4, 6, 12))
    divisor = gcd(top, bottom)
    return (
        rf"\frac{{{top}\pi}}{{{bottom}}}",
        rf"\frac{{{top // divisor}}}{{{bottom // divisor}}}\pi",
        rf"\frac{{{top + 1}\pi}}{{{bottom}}}",
    )


FORMS: tuple[Callable[[random.Random], Written], ...] = (
    _fraction,
    _tuple,
    _interval,
    _set,
    _polynomial,
    _power,
    _root,
    _rational_function,
    _matrix,
    _unit,
    _text,
    _choice,
    _thousands,
    _equation,
    _angle,
)
