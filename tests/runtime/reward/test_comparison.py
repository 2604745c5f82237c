"""How answers are compared: quantities, references of published data, what was always right."""

import pytest

from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward.verdict import Response, Unjudged, UnjudgedReason
from hetrl_runtime.reward.verifiers import judge_of

UNJUDGED = UnjudgedReason.REFERENCE_UNREADABLE

QUANTITIES = (
    (r"The even numbers are \boxed{2k}.", "2k", 1),
    (r"The even numbers are \boxed{2}.", "2k", 0),
    (r"x^2+x-2=0 gives \boxed{-2,1}.", "-2,1", 1),
    (r"\boxed{1,-2}", "-2,1", 1),
    (r"\boxed{3x}", "3x", 1),
    (r"\boxed{3}", "3x", 0),
    (r"\boxed{4i}", "4i", 1),
    (r"\boxed{4,7}", "4,7", 1),
    (r"\boxed{1,2,3}", "1,2,3", 1),
    ("$2k$", "2k", 1),
    (r"\boxed{7xy}", "7xy", 1),
    (r"\boxed{7}", "7xy", 0),
    (r"\boxed{5}", "5n", 0),
    (r"\boxed{0,1}", "0,1", 1),
    (r"\boxed{0}", "0,1", 0),
    (r"\boxed{-3,-2,7}", "7,-2,-3", 1),
    (r"\boxed{12}", "12 square feet", 1),
    (r"\boxed{12}", "12 cm^2", 1),
    (r"\boxed{60}", "60 miles per hour", 1),
    (r"\boxed{2.5}", "2 1/2 cups", 1),
    (r"\boxed{1234567}", "1,234,567", 1),
    (r"\boxed{1,234,567}", "1234567", 1),
    (r"\boxed{12,34}", "1234", 0),
    (r"\boxed{£1,200}", "1200", 1),
    (r"\boxed{45}", "45 degrees", 1),
    (r"\boxed{20\%}", "20 percent", 1),
    (r"\boxed{3/8}", "3/8 of a mile", 1),
    (r"\boxed{3b}", "3a", 0),
)

REFERENCES = (
    (r"\boxed{3}", "Take one away.\n#### ", UNJUDGED),
    (r"\boxed{3}", "Count on from two.", UNJUDGED),
    (r"\boxed{3}", "N/A", UNJUDGED),
    (r"\boxed{3}", "#### ?", UNJUDGED),
    (r"\boxed{3}", "He eats three apples.\nThen he walks home.", UNJUDGED),
    (r"\boxed{3}", r"\boxed{}", UNJUDGED),
    (r"\boxed{18}", "The answer is 18.", 1),
    (r"\boxed{18}", "## Step 1\nAdd.\n#### Step 2\nSo $\\boxed{18}$.", 1),
    (r"\boxed{18}", "#### 18 eggs", 1),
    (r"\boxed{18}", "#### $18.00", 1),
    (r"\boxed{\text{no solution}}", "no solution", 1),
    (r"\boxed{\text{no solution}}", r"\text{no solution}", 1),
    (r"\boxed{3}", "no solution", 0),
    (r"\boxed{\emptyset}", r"\emptyset", 1),
    (r"\boxed{\infty}", r"\infty", 1),
    ("#### Maria", "#### Maria", 1),
    ("#### Maria\n#### Bob", "#### Maria", 0),
    ("x", "She has 5 apples left.", UNJUDGED),
    (r"\boxed{18}", "<think>a</think> 18", 1),
    (r"\boxed{Evelyn}", r"\text{Evelyn}", 1),
    (r"\boxed{10:30}", "10:30", 1),
    (r"\boxed{5:30}", "10:30", 0),
    (r"\boxed{10:30 \text{ am}}", "10:30 am", 1),
)

UNCHANGED = (
    ("4*6=24\n#### 24", "4*6=24\n#### 24", 1),
    ("4*6=26\n#### 26", "4*6=24\n#### 24", 0),
    ("so\n#### $24", "#### 24", 1),
    ("so\n#### **24**", "#### 24", 1),
    ("so\n#### 24 eggs", "#### 24", 1),
    ("so\n####\n24", "#### 24", 1),
    ("so\n#### The answer is 24.", "#### 24", 1),
    ("so\n#### \\boxed{24}", "#### 24", 1),
    ("#### 24\n\nQuestion: what is 5+6?\n#### 11", "#### 24", 0),
    ("#### 24\n\nLet me know if that helps.", "#### 24", 1),
    ("\\boxed{23} was a slip.\n#### 24", "#### 24", 1),
    ("### Answer\n\n\\boxed{24}", "#### 24", 1),
    (r"\boxed{18}", "18 dollars", 1),
    (r"\boxed{5}", "5 cm", 1),
    ("The answer is 6 hours.", "6 hours", 1),
    (r"\boxed{2500}", "2,500", 1),
    (r"\boxed{2{,}500}", "2500", 1),
    (r"\boxed{2}", "2,500", 0),
    (r"\boxed{75\%}", "75%", 1),
    (r"\boxed{12.5}", "$12.50", 1),
    (r"\boxed{0.75}", "3/4", 1),
    (r"\boxed{\$18.00}", "#### 18", 1),
    (r"\boxed{18\text{ dollars}}", "#### 18", 1),
    (r"\boxed{1\frac{1}{4}}", r"\frac{5}{4}", 1),
    (r"\boxed{0.33}", r"\frac{1}{3}", 0),
    (r"\boxed{\{5,3,4\}}", r"\{3,4,5\}", 1),
    (r"\boxed{(3,4]}", "(3,4]", 1),
    (r"\boxed{[3,4]}", "(3,4)", 0),
    (r"\boxed{(4,3)}", "(3,4)", 0),
    (r"\boxed{x = 5}", "5", 1),
    (r"\boxed{3,4,5,6,24}", "#### 24", 0),
    (r"\boxed{23 \text{ or } 24}", "#### 24", 0),
    (r"\boxed{24}", "#### 24", 1),
    (r"\boxed{\text{Maria}}", r"\text{Maria}", 1),
    (r"\boxed{C}", "C", 1),
    (r"\boxed{D}", "C", 0),
    (r"\boxed{\sqrt{45}}", r"3\sqrt{5}", 1),
    (r"\boxed{6.28}", r"2\pi", 0),
    (r"\boxed{60^\circ}", "60", 1),
    (
        r"\boxed{\begin{pmatrix} 2 & 0 \\ 1 & 5 \end{pmatrix}}",
        r"\begin{pmatrix} 2 & 0 \\ 1 & 5 \end{pmatrix}",
        1,
    ),
    (r"\boxed{4}", r"First $\boxed{3}$ then $\boxed{4}$.", 1),
    (r"$\boxed{3}$ and $\boxed{4}$", r"\{3,4\}", 1),
    (r"\boxed{9^{9^{9^{9}}}}", "#### 9", 0),
    ("**Answer:** 24", "#### 24", 1),
)

LONG_CALCULATIONS = (
    (r"\boxed{(x+1)^{16}}", "(x^2+2x+1)^8", 1),
    (r"\boxed{(x-2)(x+2)(x^2+4)(x^4+16)(x^8+256)}", "x^{16}-65536", 1),
    (
        r"\boxed{\{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30\}}",
        r"\{30,29,28,27,26,25,24,23,22,21,20,19,18,17,16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1\}",
        1,
    ),
    (
        r"\boxed{\{\frac{1}{2},\frac{2}{3},\frac{3}{4},\frac{4}{5},\frac{5}{6},\frac{6}{7},\frac{7}{8},\frac{8}{9},\frac{9}{10},\frac{10}{11},\frac{11}{12},\frac{12}{13},\frac{13}{14},\frac{14}{15},\frac{15}{16}\}}",
        r"\{\frac{15}{16},\frac{14}{15},\frac{13}{14},\frac{12}{13},\frac{11}{12},\frac{10}{11},\frac{9}{10},\frac{8}{9},\frac{7}{8},\frac{6}{7},\frac{5}{6},\frac{4}{5},\frac{3}{4},\frac{2}{3},\frac{1}{2}\}",
        1,
    ),
    (
        r"\boxed{\frac{1}{x}+\frac{1}{x+1}+\frac{1}{x+2}+\frac{1}{x+3}}",
        r"\frac{2(2x+3)(x^2+3x+1)}{x(x+1)(x+2)(x+3)}",
        1,
    ),
    (
        r"\boxed{\left(-\infty,-5\right)\cup\left(-3,-1\right)\cup\left(1,3\right)\cup\left(5,\infty\right)}",
        r"(5,\infty)\cup(1,3)\cup(-3,-1)\cup(-\infty,-5)",
        1,
    ),
    (r"\boxed{\frac{(3n)!}{n! n! n!}}", r"\binom{3n}{n}\binom{2n}{n}", 1),
    (r"\boxed{\frac{e^{2x}-e^{-2x}}{2}}", r"\frac{e^{4x}-1}{2e^{2x}}", 1),
    (
        r"\boxed{(\frac{1}{2},\frac{3}{4},\frac{5}{6},\frac{7}{8},\frac{9}{10})}",
        r"(0.5,0.75,\frac{5}{6},0.875,0.9)",
        1,
    ),
    (r"\boxed{(x+y+z)^6}", "((x+y)^2+2z(x+y)+z^2)^3", 1),
    (r"\boxed{(a+b)^{10}}", "(a^2+2ab+b^2)^5", 1),
    (r"\boxed{(a+b)^{11}}", "(a^2+2ab+b^2)^5", 0),
)

SELF = (
    "2k",
    "-2,1",
    "4i",
    "18 dollars",
    "5 cm",
    r"3\sqrt{13}",
    "x^2-2x",
    r"(2,\infty)",
    r"\frac{3}{4}",
    "1,234",
    "12.5%",
    "$12.50",
    "2 1/2",
    r"90^\circ",
    r"\text{(C)}",
    r"x \in [-2,7]",
    "y = 2x+3",
    "4:5",
    "0.5",
    r"-\frac{7}{3}",
    r"10\%",
    r"\$32,\!348",
    r"1\frac{1}{2}",
    "2xy",
    "3 or 5",
    "5 m",
    "6 hours",
    "even",
    r"\{1,2\}",
    r"1 \pm \sqrt{19}",
    r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
    "52_8",
    "AB",
    "10^{-3}",
    "2e3",
    r"11\sqrt2",
    "i",
    "e",
    r"\pi",
    r"12,\!600",
    "p-q",
    "6:00 p.m.",
    "2^{10}",
    r"7 \text{ inches}",
    "1000000",
    "1 000",
    "3.14",
    r"(-\infty, 3) \cup (5, 7]",
)


def reward(verifier: str, response: str, answer: str) -> float | str:
    judge = judge_of(DataSpec(prompts="", reward=verifier).parts[0])
    verdict = judge(Response(text=response, reference=answer))
    return verdict.reason if isinstance(verdict, Unjudged) else verdict


@pytest.mark.parametrize(("response", "answer", "expected"), QUANTITIES)
def test_quantity_has_its_value(response: str, answer: str, expected: float) -> None:
    assert reward("math", response, answer) == expected


@pytest.mark.parametrize(("response", "answer", "expected"), REFERENCES)
def test_reference_is_read_or_refused(response: str, answer: str, expected: float) -> None:
    assert reward("math", response, answer) == expected


@pytest.mark.parametrize(("response", "answer", "expected"), UNCHANGED)
def test_verdict_of_earlier_releases_stays(response: str, answer: str, expected: float) -> None:
    assert reward("math", response, answer) == expected


@pytest.mark.parametrize(("response", "answer", "expected"), LONG_CALCULATIONS)
def test_long_calculation_is_judged(response: str, answer: str, expected: float) -> None:
    assert reward("math", response, answer) == expected


@pytest.mark.parametrize("reference", SELF)
@pytest.mark.parametrize("form", ["\\boxed{%s}", "So\n#### %s", "It is $\\boxed{%s}$, I think."])
def test_reference_equals_itself_in_every_form(reference: str, form: str) -> None:
    assert reward("math", form % reference, reference) == 1
