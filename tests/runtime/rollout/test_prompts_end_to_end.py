"""Prompts as `hetrl prompt` shows them, beside those that come back from a real worker."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from hetrl_core.job.spec import DataSpec, ModelFiles
from hetrl_runtime.preflight.rendering import rendered
from tests.runtime.rollout.following import NUM_POLICIES, Trainer, a_coordinator, a_job, a_worker
from tests.runtime.rollout.models import save_tiny_qwen3

pytestmark = pytest.mark.slow

TURNS = "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
ANSWER = "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"

# What chat models' templates do beside their own marks.
THINKING = (
    TURNS + ANSWER + "{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}"
)
OWN_SYSTEM_MESSAGE = (
    "{% if messages[0].role != 'system' %}<|start|>system\nBe helpful.<|end|>\n{% endif %}"
    + TURNS
    + ANSWER
)
BEGIN_OF_TEXT = "<|begin|>" + TURNS + ANSWER

CASES = [
    pytest.param(THINKING, {}, id="thinks"),
    pytest.param(
        THINKING,
        {"chat_template_arguments": (("enable_thinking", False),)},
        id="does not think",
    ),
    pytest.param(OWN_SYSTEM_MESSAGE, {}, id="a system message of the template"),
    pytest.param(
        OWN_SYSTEM_MESSAGE,
        {"system_prompt": "Add.", "prompt_template": "{question} Only the number."},
        id="a system message of the job",
    ),
    pytest.param(BEGIN_OF_TEXT, {"prompt_template": "Q: {question}"}, id="a mark of its own"),
    pytest.param(None, {"prompt_template": "{question}\nAnswer: "}, id="a base model"),
]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_qwen3(tmp_path_factory.mktemp("policy"), seed=0)


def with_template(policy: Path, folder: Path, template: str | None) -> Path:
    """Copy a policy, and give its tokenizer a chat template."""
    shutil.copytree(policy, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("template", "words"), CASES)
async def test_prompt_shown_is_the_one_that_engines_get(
    tmp_path: Path, policy: Path, template: str | None, words: dict[str, Any]
) -> None:
    folder = with_template(policy, tmp_path / "policy", template)
    policies = dict.fromkeys(range(NUM_POLICIES), folder)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(json.dumps({"question": f"{n}+1=", "answer": n + 1}) + "\n" for n in range(4))
    )
    data = DataSpec(prompts=str(rows), max_prompt_tokens=120, max_response_tokens=8, **words)
    launch = a_job(tmp_path, policies, data=data, steps=2)
    trainer = Trainer(launch, policies)

    async with a_coordinator(launch):
        worker = a_worker(launch)
        await asyncio.to_thread(trainer.run, until=2)
        await worker

    shown = {
        each["answer"]: (each["tokens"], each["text"])
        for each in rendered(
            ModelFiles(source=str(folder)), data, tmp_path / "fetched", first=0, count=4
        )
    }
    received = [each for _, batch in trainer.batches for each in batch]
    assert received
    for each in received:
        tokens, text = shown[each.answer]
        assert each.prompt_tokens.tolist() == tokens
        assert each.question in text
    if words.get("prompt_template"):
        assert words["prompt_template"].format(question="0+1=") in shown["1"][1]
