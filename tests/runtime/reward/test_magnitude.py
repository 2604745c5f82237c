import pytest

from hetrl_runtime.reward.answers.magnitude import is_beyond_reason
from hetrl_runtime.reward.mathematics import score


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{9^{9^{9^{9}}}}",
        "10^{10^{10}}",
        "10**10**10",
        "2^{2^{2^{2^{2^{2}}}}}",
        "99999^99999",
        "1000000!",
        "(x+y+z)^{500}",
        "1" * 400 + "^2222",
        "2^" + "9" * 400,
        "1+" * 2_000 + "1",
        "There are 2 * 3.5 " + "- 2 * 3.5" * 300,
        "(" * 10,
        r"\boxed{\frac{" + r"\left( [" * 5 + "1",
    ],
)
def test_mathematics_too_large_is_detected_from_its_text(text):
    assert is_beyond_reason(text)
    assert score(text, "18") == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "18",
        "2^{10}",
        "2^{3^2}",
        "10^{100}",
        "1.05^{120}",
        "20!",
        "(x+1)^{10}",
        "1^{9^{9}}",
        "",
        "1" * 100_000,
        "^^^",
        "x^{1000}",
        "+".join("1" * 300),
        "1-" * 2 + "x" + "1-" * 499 + "x",
        "((((((((1))))))))",
        r"\sqrt{" * 40,
        "2010-11-26 " * 300,
        "1." * 100_000,
        " " * 100_000,
    ],
)
def test_finite_expression_is_left_to_the_verifier(text):
    assert not is_beyond_reason(text)


def test_power_is_still_equal_to_itself():
    assert score("The answer is\n#### 9^{9^{9}}", "#### 9^{9^{9}}") == 1.0
    assert score("$2^{10}$", "1024") == 1.0


def test_chain_of_thought_with_long_sums_is_judged_by_answer():
    chain = "+".join(str(term) for term in range(1, 401))
    assert score(rf"First $1+2=3$, then {chain}, so it is \boxed{{80200}}.", "80200") == 1.0
