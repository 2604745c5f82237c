"""The calculator: arithmetic on untrusted text.

Python's parser reads the expression, and nothing of it is ever run: numbers and operators are
looked for in its tree, and whatever else is there is refused. Numbers are fractions, so that
results are exact, and their size is bounded before they are made.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from fractions import Fraction

MAX_CHARS = 200
"""Of an expression: bounds the depth and the number of its operations."""

MAX_BITS = 512
"""Of a numerator or denominator on the way to the result."""

_DIGITS = 12
"""Significant ones of a result that is not whole."""

_OPERATIONS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda left, right: Fraction(left // right),
    ast.Mod: operator.mod,
}


def calculate(expression: str) -> str:
    """Return an expression's value: whole numbers in full, others to twelve digits.

    Raises:
        ValueError: it is no arithmetic, has no value, or one that is too large; says which.

    >>> calculate("(3 + 4) * 12.5"), calculate("10 / 4"), calculate("2 ** 10")
    ('87.5', '2.5', '1024')
    """
    if len(expression) > MAX_CHARS:
        raise ValueError(f"the expression has {len(expression)} characters, at most {MAX_CHARS}")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError("not an arithmetic expression") from None
    try:
        return _written(_value(tree.body, expression.strip()))
    except ZeroDivisionError:
        raise ValueError("division by zero") from None


def _value(node: ast.expr, source: str) -> Fraction:
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            # As it was written: a float of 0.1 is another number.
            return _bounded(_number(ast.get_source_segment(source, node) or ""))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, source)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, source)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, source), _value(right, source))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _bounded(_OPERATIONS[type(op)](_value(left, source), _value(right, source)))
        case _:
            raise ValueError("only numbers, + - * / // % ** and parentheses are known")


def _number(text: str) -> Fraction:
    exponent = text.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > MAX_BITS:
        raise ValueError("a number is too large")
    return Fraction(text.replace("_", ""))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ValueError("exponents must be whole numbers")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size * abs(exponent.numerator) > MAX_BITS:
        raise ValueError("a number is too large")
    return Fraction(base**exponent.numerator)


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ValueError("a number is too large")
    return value


def _written(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    context = Context(prec=_DIGITS)
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return str(quotient.normalize(context))
