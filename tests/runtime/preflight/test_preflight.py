"""What a preflight finds in models, rows and rewards, on real files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hetrl_core.job.algorithm import AlgorithmSpec
from hetrl_core.job.reward import PythonReward, RewardPart
from hetrl_core.job.spec import DataSpec, Engine, ModelFiles
from hetrl_core.launch import TERMINAL_EXIT_CODE
from hetrl_core.preflight import (
    PreflightReport,
    PreflightRequest,
    report_from_json,
    request_to_json,
)
from hetrl_runtime.preflight.command import command
from hetrl_runtime.preflight.preflight import preflight
from hetrl_runtime.tiny.tokenizer import make_tokenizer
from tests.model_folders import TINY_QWEN3, tensors_of, write_model

ROWS = ({"question": "3+4?", "answer": "#### 7"}, {"question": "1+1?", "answer": "#### 2"})


@pytest.fixture
def request_for_sums(tmp_path: Path) -> PreflightRequest:
    """The request of a job that can run."""
    folder = write_model(tmp_path / "model")
    make_tokenizer(max_tokens=2048).save_pretrained(folder)
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return PreflightRequest(
        model=ModelFiles(source=str(folder)),
        engine=Engine.TRANSFORMERS,
        algorithm=AlgorithmSpec(),
        data=DataSpec(
            prompts=str(tmp_path / "train.jsonl"), max_prompt_tokens=64, max_response_tokens=64
        ),
    )


def by(request: PreflightRequest, code: str, tmp_path: Path) -> PreflightRequest:
    """The same request with a reward function."""
    (tmp_path / "reward.py").write_text(code)
    python = PythonReward(file=str(tmp_path / "reward.py"))
    return replace(request, data=replace(request.data, reward="python", python=python))


def test_job_that_can_run_passes_with_its_dimensions(request_for_sums: PreflightRequest) -> None:
    report = preflight(request_for_sums)

    assert report.passed, report.message
    assert report.notes == ()
    assert report.architecture
    assert report.architecture.num_layers == TINY_QWEN3["num_hidden_layers"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"model_type": "gpt2"}, "gpt2", id="family"),
        pytest.param({"quantization_config": {"quant_method": "awq"}}, "awq", id="quantised"),
        pytest.param({"tie_word_embeddings": False}, "lm_head.weight", id="missing head"),
        pytest.param({"num_hidden_layers": 3}, "layers.2", id="missing layer"),
        pytest.param({"max_position_embeddings": 100}, "128", id="context"),
    ],
)
def test_broken_model_is_refused_by_name(
    request_for_sums: PreflightRequest, changes: dict[str, Any], said: str
) -> None:
    folder = Path(request_for_sums.model.source)
    good = TINY_QWEN3 | {"tie_word_embeddings": True}
    write_model(folder, TINY_QWEN3 | changes, tensors_of(good))

    report = preflight(request_for_sums)

    assert (report.passed, report.reason) == (False, "ModelInvalid")
    assert said in report.message


@pytest.mark.parametrize(
    ("engine", "first", "passes"),
    [
        pytest.param(Engine.VLLM, 1, False, id="windows of some layers"),
        pytest.param(Engine.VLLM, 2, True, id="windows of none"),
        pytest.param(Engine.TRANSFORMERS, 1, True, id="another engine"),
    ],
)
def test_model_that_vllm_cannot_serve_is_refused_for_vllm(
    request_for_sums: PreflightRequest, engine: Engine, first: int, *, passes: bool
) -> None:
    windows = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": first}
    write_model(Path(request_for_sums.model.source), TINY_QWEN3 | windows)

    report = preflight(replace(request_for_sums, engine=engine))

    assert report.passed is passes, report.message


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        pytest.param('{"question": "1+1?"}', "train.jsonl:1", id="no answer"),
        pytest.param('{"question": "\\ud83c", "answer": "2"}', "half a character", id="surrogate"),
        pytest.param('{"question": "' + "1" * 65 + '", "answer": "2"}', "64", id="all too long"),
        pytest.param('{"question": "1+1?", "answer": "#### "}', "1 of 1", id="no reference"),
        pytest.param("", "empty", id="no rows"),
    ],
)
def test_unusable_data_are_refused_with_their_line(
    request_for_sums: PreflightRequest, rows: str, said: str
) -> None:
    Path(request_for_sums.data.prompts).write_text(rows)

    report = preflight(request_for_sums)

    assert (report.passed, report.reason) == (False, "DataInvalid")
    assert said in report.message


def test_prompts_that_are_left_out_are_counted(request_for_sums: PreflightRequest) -> None:
    with Path(request_for_sums.data.prompts).open("a") as rows:
        rows.write(json.dumps({"question": "9" * 80, "answer": "9"}) + "\n")

    report = preflight(request_for_sums)

    assert report.passed
    (note,) = report.notes
    assert note.startswith("1 of 3 prompts are longer than data.maxPromptTokens")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param("def grade(response, answer): return 1", "score", id="name"),
        pytest.param("def score(a, b, c, d, e): return 1", "WrongSignature", id="signature"),
        pytest.param("def score(response, answer): return 1 / 0", "ZeroDivision", id="raises"),
        pytest.param("def score(response, answer): return 'good'", "str", id="type"),
        pytest.param("def score(response, answer): return 1e39", "float32", id="infinite"),
        pytest.param("import nowhere", "nowhere", id="import"),
    ],
)
def test_reward_that_judges_nothing_is_refused(
    request_for_sums: PreflightRequest, tmp_path: Path, code: str, said: str
) -> None:
    report = preflight(by(request_for_sums, code, tmp_path))

    assert (report.passed, report.reason) == (False, "RewardInvalid")
    assert said in report.message


def test_reward_that_fails_for_some_samples_passes_with_a_note(
    request_for_sums: PreflightRequest, tmp_path: Path
) -> None:
    code = "def score(response, answer): return 1 / int('7' in answer)"

    report = preflight(by(request_for_sums, code, tmp_path))

    assert report.passed
    assert "1 of 2 samples got no reward" in report.notes[0]


def test_unknown_reward_is_refused_with_a_suggestion(request_for_sums: PreflightRequest) -> None:
    data = replace(request_for_sums.data, reward="maths")

    report = preflight(replace(request_for_sums, data=data))

    assert report.reason == "RewardInvalid"
    assert "did you mean 'math'" in report.message


def with_rewards(
    request: PreflightRequest, *parts: RewardPart, rows: tuple[dict[str, Any], ...]
) -> PreflightRequest:
    """The same request with several rewards, and other rows."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    Path(request.data.prompts).write_text(lines)
    return replace(request, data=replace(request.data, rewards=parts))


SOURCED = tuple(
    {"question": f"{n}+0?", "answer": str(n), "data_source": "math" if n < 12 else "code"}
    for n in range(14)
)


@pytest.mark.slow
def test_rewards_are_checked_on_rows_of_their_sources(
    request_for_sums: PreflightRequest, tmp_path: Path
) -> None:
    (tmp_path / "reward.py").write_text("def score(response, answer): return 1 / 0")
    code = RewardPart(
        name="runs",
        sources=("code",),
        reward="python",
        python=PythonReward(file=str(tmp_path / "reward.py")),
    )

    report = preflight(
        with_rewards(request_for_sums, RewardPart(name="correct"), code, rows=SOURCED)
    )

    assert (report.passed, report.reason) == (False, "RewardInvalid")
    assert report.message.startswith("data.rewards[runs] python: 2 of 2 samples got no reward")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "passes", "said"),
    [
        pytest.param(
            (RewardPart(name="a"), RewardPart(name="b", sources=("cod",), reward="exact")),
            False,
            "data.rewards[b].sources: no row has data_source 'cod' (there are 'code', 'math'): "
            "did you mean 'code'?; the reward is for no row",
            id="no row",
        ),
        pytest.param(
            (RewardPart(name="a", sources=("math", "code", "chat")),),
            True,
            "data.rewards[a].sources: no row has data_source 'chat'",
            id="one of several sources",
        ),
        pytest.param(
            (RewardPart(name="a", sources=("math",)),),
            True,
            "2 of 14 prompts are of a source that none of data.rewards is for",
            id="rows without a reward",
        ),
        pytest.param(
            (RewardPart(name="a", reward="maths"),), False, "did you mean 'math'", id="misspelt"
        ),
    ],
)
def test_sources_of_rewards_are_compared_with_those_of_rows(
    request_for_sums: PreflightRequest, parts: tuple[RewardPart, ...], *, passes: bool, said: str
) -> None:
    report = preflight(with_rewards(request_for_sums, *parts, rows=SOURCED))

    assert report.passed is passes, report.message
    assert said in " ".join([report.message, *report.notes])


def report_of(request: PreflightRequest, tmp_path: Path) -> tuple[int, PreflightReport]:
    """Run the pod's command."""
    asked, answer = tmp_path / "request.json", tmp_path / "termination-log"
    asked.write_text(request_to_json(request))
    result = CliRunner().invoke(command, ["--request", str(asked), "--report", str(answer)])
    return result.exit_code, report_from_json(answer.read_text())


def test_command_writes_the_report_and_ends_by_its_result(
    request_for_sums: PreflightRequest, tmp_path: Path
) -> None:
    missing = replace(request_for_sums, model=ModelFiles(source=str(tmp_path / "absent")))

    assert report_of(request_for_sums, tmp_path)[0] == 0
    code, report = report_of(missing, tmp_path)
    assert code == TERMINAL_EXIT_CODE
    assert "absent" in report.message
