import ast
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_runtime.tools.calculator import MAX_BITS, calculate

NUMBERS = st.integers(0, 9999).map(str) | st.decimals(0, 99, places=2).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({''.join(parts)})")
        | inner.map(lambda each: f"-{each}")
    ),
    max_leaves=6,
)


def exact(node: ast.expr, source: str) -> Fraction:
    """The value by Python's own grammar, on fractions, with the plainest rules there are."""
    if isinstance(node, ast.Constant):
        return Fraction(ast.get_source_segment(source, node) or "")
    if isinstance(node, ast.UnaryOp):
        return -exact(node.operand, source)
    assert isinstance(node, ast.BinOp)
    left, right = exact(node.left, source), exact(node.right, source)
    return {
        ast.Add: lambda: left + right,
        ast.Sub: lambda: left - right,
        ast.Mult: lambda: left * right,
        ast.Div: lambda: left / right,
    }[type(node.op)]()


@given(EXPRESSIONS)
def test_results_are_those_of_exact_arithmetic(expression):
    try:
        expected = exact(ast.parse(expression, mode="eval").body, expression)
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="division by zero"):
            calculate(expression)
        return

    found = Fraction(calculate(expression))

    assert found == expected or abs(found - expected) < abs(expected) / 10**11


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("347*829", "287663"),
        (" 1,000".replace(",", "_"), "1000"),
        ("0.1 + 0.2", "0.3"),
        ("1/3", "0.333333333333"),
        ("7 // 2 + -7 % 3", "5"),
        ("2**-2", "0.25"),
        ("1e3", "1000"),
    ],
)
def test_calculator_computes(expression, result):
    assert calculate(expression) == result


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        pytest.param("", "not an arithmetic", id="nothing"),
        pytest.param("2 +", "not an arithmetic", id="half of one"),
        pytest.param("1, 2", "only numbers", id="a tuple"),
        pytest.param("True + 1", "only numbers", id="a truth"),
        pytest.param("'a' * 9", "only numbers", id="text"),
        pytest.param("__import__('os').system('true')", "only numbers", id="a call"),
        pytest.param("(lambda: 0)()", "only numbers", id="a function"),
        pytest.param("x", "only numbers", id="a name"),
        pytest.param("1j", "only numbers", id="an imaginary number"),
        pytest.param("1 << 9", "only numbers", id="another operator"),
        pytest.param("9**9**9", "too large", id="a tower of powers"),
        pytest.param("10**99999999999", "too large", id="a large power"),
        pytest.param("1e99999", "too large", id="a large number"),
        pytest.param("1e-99999", "too large", id="a small number"),
        pytest.param("*".join(["9" * 60] * 3), "too large", id="a large product"),
        pytest.param("2**0.5", "whole", id="a root"),
        pytest.param("0**-1", "division by zero", id="no value"),
        pytest.param("1%0", "division by zero", id="no rest"),
        pytest.param("(" * 101 + ")" * 100, "at most 200", id="too long"),
        pytest.param("-" * 190 + "(", "not an arithmetic", id="deep"),
        pytest.param("\0", "not an arithmetic", id="a null"),
    ],
)
def test_expression_without_a_value_is_refused_with_a_reason(expression, reason):
    with pytest.raises(ValueError, match=reason):
        calculate(expression)


@given(st.text(max_size=60) | st.text("0123456789.+-*/%()e _", max_size=60))
def test_text_has_a_value_or_is_refused(text):
    try:
        result = calculate(text)
    except ValueError:
        return
    assert len(result) <= MAX_BITS
