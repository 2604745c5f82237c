"""Where the final answer of a response stands: headings, boxes, reasoning, other forms."""

import time

import pytest

from hetrl_core.job.reward import AnswerForm, MathReward
from hetrl_core.job.spec import DataSpec
from hetrl_runtime.reward.answers.final_answer import final_answer
from hetrl_runtime.reward.verdict import Response, Unjudged
from hetrl_runtime.reward.verifiers import judge_of

HEADINGS = (
    (
        "### Working\nThe box holds 4 rows of 6.\n\n#### Result\nSo there are \\(\\boxed{24}\\) eggs.",  # noqa: E501
        "4*6=24\n#### 24",
        1,
    ),
    (
        "#### Step 1: Rows\nThere are 4 rows.\n#### Step 2: Eggs\n4 rows of 6 make 24.\n\nThe answer is \\boxed{24}.",  # noqa: E501
        "#### 24",
        1,
    ),
    (
        "#### Step 1: Rows\nThere are 4 rows.\n#### Step 2: Eggs\n4 rows of 6 make 26.\n\nThe answer is \\boxed{26}.",  # noqa: E501
        "#### 2",
        0,
    ),
    ("#### Part 3\nThe rest follows.\n\n**Final answer: 15**", "#### 3", 0),
    ("##### Summary\nThe tank holds \\boxed{90} litres.", "#### 90", 1),
    (
        "```python\n#### compute the mean\nmean = 30 / 2\n```\nThe mean is \\boxed{15}.",
        "#### 15",
        1,
    ),
    ("#### 45\n\nI hope this helps! #### ", "#### 45", 1),
    ("#### Answer\n45", "#### 45", 1),
    ("#### Final answer:\n\n\\[ \\boxed{\\frac{3}{8}} \\]", r"\frac{3}{8}", 1),
    ("The answer is \\boxed{60}.\n\n#### Notes\nOther ways exist.", "#### 60", 1),
    ("<think>#### 6</think>\nThe answer is \\boxed{5}.", "#### 5", 1),
    (
        "#### Solution\nWe add: 3+4.\n#### Check\nIt fits.\n\nSo the total is \\boxed{7}.",
        "#### 7",
        1,
    ),
    (
        "#### 1. Count the rows\nThere are 4.\n#### 2. Multiply\nWe get 24 eggs.\n\n**Answer: 24**",
        "#### 24",
        1,
    ),
    (
        "#### 1. Count the rows\nThere are 4.\n#### 2. Multiply\nWe get 26 eggs.\n\n**Answer: 26**",
        "#### 2",
        0,
    ),
    ("#### 3 Steps\nfirst, second, third: \\boxed{12}", "#### 3", 0),
    ("The result is \\boxed{12}\n\n#### A note on 5 apples\nNone.", "#### 12", 1),
    ("~~~\n#### 99\n~~~\nSo \\boxed{5}.", "#### 5", 1),
    ("###### 7\nSo \\boxed{5}.", "#### 5", 1),
    ("#### Step 24\n\nNothing more.", "#### 24", 0),
    ("#### Conclusion: 18", "#### 18", 1),
)

EXACT = (
    ("#### blue whale\n\nI hope this helps!", "#### blue whale", 1),
    ("#### blue whale\n\n##### Notes\nNone.", "#### blue whale", 1),
    ("#### blue whale", "It is the largest.\n#### blue whale", 1),
    ("#### grey whale", "#### blue whale", 0),
)

BOXES = (
    (r"So it is \boxed{12}. Hold on, I forgot one. It is \boxed{13}.", "#### 13", 1),
    (r"So it is \boxed{12}. Hold on, I forgot one. It is \boxed{13}.", "#### 12", 0),
    (r"\boxed{41}, wait, \boxed{42}", "#### 42", 1),
    (r"First we get x=\boxed{3}, hence y=\boxed{12}", "12", 1),
    (r"First we get x=\boxed{3}, hence y=\boxed{12}", "3", 0),
    (r"I would guess 21 but write \boxed{}", "#### 21", 0),
    (r"\boxed{}", "#### 21", 0),
    ("\\boxed{1}\n\nWait, recompute: \\boxed{2}. Check again: \\boxed{3}", "3", 1),
    ("\\boxed{1}\n\nWait, recompute: \\boxed{2}. Check again: \\boxed{3}", "2", 0),
    (r"$\boxed{5}$, $\boxed{6}$", "6", 1),
    (r"$\boxed{5}$, $\boxed{6}$", "5", 0),
    (r"\boxed{5} or \boxed{6}", "5,6", 1),
    (r"\boxed{12} but \boxed{ }", "12", 0),
    (r"\boxed{\frac{1}{2}} no: \boxed{\frac{1}{3}}", r"\frac{1}{3}", 1),
    ("#### 5\nOh no.\n#### 6", "#### 6", 1),
    ("#### 5\nOh no.\n#### 6", "#### 5", 0),
    ("The answer is 5. Wait, the answer is 6.", "6", 1),
    ("The answer is 5. Wait, the answer is 6.", "5", 0),
    (r"\boxed{7} and then I was cut off \boxed{8", "7", 1),
)

REASONING = (
    ("<think>\n\\boxed{31}\n</think>\nThe answer is 32.", "#### 31", 0),
    ("<think>\n\\boxed{31}\n</think>\nThe answer is 32.", "#### 32", 1),
    ("<think>I get \\boxed{14}, no.</think>\nThe answer is \\boxed{15}.", "15", 1),
    ("<think>I get \\boxed{14}, no.</think>\nThe answer is \\boxed{15}.", "14", 0),
    ("I think \\boxed{3}</think>\n\\boxed{4}", "4", 1),
    ("I think \\boxed{3}</think>\n\\boxed{4}", "3", 0),
    (r"<think>a</think> <think>\boxed{3}</think> So 4.", "3", 0),
    (r"<think>It is \boxed{3}", "3", 0),
    ("<think>\n#### 9\n</think>\n#### 10", "9", 0),
    ("<think>\n#### 9\n</think>\n#### 10", "10", 1),
    (r"\boxed{3}</think>", "3", 0),
    ("<THINK>It is 3</THINK> 4", "4", 1),
)

FORMS = (
    (r"\boxed {24}", "#### 24", 1),
    (r"\fbox{24}", "#### 24", 1),
    ("<think>4*6</think><answer>24</answer>", "#### 24", 1),
    ("<answer>25</answer>", "#### 24", 0),
    ("所以答案是24。", "#### 24", 1),
    (r"\boxed{2.4e3}", "2400", 1),
    (r"\boxed{2\,400}", "2400", 1),
    (r"\boxed{2\,400}", "402", 0),
    (r"\boxed{2\;400}", "2400", 1),
    ("The answer is (B).", "(B)", 1),
    ("The answer is (B).", "(C)", 0),
    (r"<answer>\boxed{24}</answer>", "24", 1),
    ("<answer> $24 </answer>", "24", 1),
    ("<answer>24 eggs</answer> done", "24", 1),
    ("答案\uff1a36", "36", 1),
    ("因此\uff0c答案为 36。", "36", 1),
    ("所以总共是36个。", "36", 1),
    (r"\boxed{2.4\times 10^3}", "2400", 1),
    (r"\boxed{1E-2}", "0.01", 1),
    (r"\boxed{12\ 000}", "12000", 1),
    (r"\boxed{12~000}", "12000", 1),
    ("The correct answer is B", "B", 1),
    ("Answer: (d)", "D", 1),
    ("Answer: C", "B", 0),
    (r"\boxed{\text{(B)}}", "B", 1),
    (r"\boxed{\textbf{(E)}}", "(E)", 1),
    ("$$\\boxed{\n24\n}$$", "24", 1),
    (r"\boxed 7", "7", 1),
    ("Final answer: $24$", "24", 1),
    ("The final answer is: **24**.", "24", 1),
    (r"\boxed{24.}", "24", 1),
    (r"\boxed{24.0}", "24", 1),
    (r"\boxed{x=24}", "24", 1),
    (r"\boxed{\dfrac{3}{4}}", "3/4", 1),
    (r"\boxed{-\frac34}", "-0.75", 1),
)


def reward(verifier: str, response: str, answer: str) -> float | str:
    judge = judge_of(DataSpec(prompts="", reward=verifier).parts[0])
    verdict = judge(Response(text=response, reference=answer))
    return verdict.reason if isinstance(verdict, Unjudged) else verdict


@pytest.mark.parametrize(("response", "answer", "expected"), HEADINGS)
def test_heading_is_no_answer(response: str, answer: str, expected: float) -> None:
    assert reward("math", response, answer) == expected


@pytest.mark.parametrize(("response", "answer", "expected"), EXACT)
def test_exact_takes_the_marked_line_alone(response: str, answer: str, expected: float) -> None:
    assert reward("exact", response, answer) == expected


@pytest.mark.parametrize(("response", "answer", "expected"), BOXES)
def test_last_box_is_the_answer(response: str, answer: str, expected: float) -> None:
    assert reward("math", response, answer) == expected


@pytest.mark.parametrize(("response", "answer", "expected"), REASONING)
def test_reasoning_is_no_answer(response: str, answer: str, expected: float) -> None:
    assert reward("math", response, answer) == expected


@pytest.mark.parametrize(("response", "answer", "expected"), FORMS)
def test_answer_is_found_in_other_forms(response: str, answer: str, expected: float) -> None:
    assert reward("math", response, answer) == expected


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 10_000,
        "<think>" * 10_000,
        "<answer>" * 10_000,
        "answer is " * 10_000,
        "answer is" + " " * 100_000 + "x",
        "####\n" * 20_000,
        "####" + " " * 100_000 + "x",
        "#### " + "so " * 30_000 + "x",
        "```\n" * 20_000,
        "\\boxed{1}" + " " * 100_000 + "x\\boxed{2}",
        "{" * 100_000,
        "# " + "1" * 100_000 + "x",
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    started = time.process_time()

    final_answer(text, num_values=3)

    # A quadratic search takes minutes.
    assert time.process_time() - started < 5


BOXED, LINE, TAG = AnswerForm.BOXED, AnswerForm.HASH_LINE, AnswerForm.ANSWER_TAG


@pytest.mark.parametrize(
    ("response", "forms", "score"),
    [
        (r"\boxed{7}", (), 1),
        (r"\boxed{7}", (BOXED,), 1),
        (r"\boxed{7}", (LINE,), 0),
        (r"\boxed{7}", (LINE, BOXED), 1),
        ("#### 7", (LINE,), 1),
        ("#### 7", (BOXED,), 0),
        ("<answer>7</answer>", (TAG,), 1),
        ("<answer>7</answer>", (BOXED, LINE), 0),
        (r"<answer>\boxed{7}</answer>", (TAG,), 1),
        ("The answer is 7.", (), 1),
        ("The answer is 7.", (BOXED, LINE, TAG), 0),
        ("7", (BOXED,), 0),
        ("", (BOXED,), 0),
        (r"\boxed{7}, or else #### 8", (BOXED,), 1),
        ("\\boxed{8}\n#### 7", (LINE,), 1),
        ("\\boxed{8}\n#### 7", (BOXED,), 0),
        (r"<think>\boxed{7}</think> It is 7.", (BOXED,), 0),
    ],
)
def test_answer_counts_only_in_the_forms_of_the_job(
    response: str, forms: tuple[AnswerForm, ...], score: float
) -> None:
    data = DataSpec(prompts="", math=MathReward(answer_forms=forms))

    assert judge_of(data.parts[0])(Response(text=response, reference="#### 7")) == score
