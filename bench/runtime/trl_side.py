"""TRL's GRPOTrainer on the task, in the environment of TRL: one whole step a turn.

Its first argument is JSON settings; ``turns`` has the output. Its settings are what its makers
advise for speed: no activation checkpointing, no reference where beta is 0, no logging, fused
AdamW. Which batch size, generation and precision are best here, the caller finds out.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from bench.runtime import task
from bench.runtime.turns import Turn, await_turn, say
from hetrl_runtime.compute import memory


class Side(TrainerCallback):  # type: ignore[misc]  # transformers ships no types that we read
    """Times optimizer steps and waits for its turn between them."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._asked = {name: settings[name] for name in ("min_tokens", "max_tokens")}
        self.rewards: list[float] = []
        self.num_tokens = 0

    def reward(
        self, prompts: Sequence[str], completions: Sequence[str], **found: Any
    ) -> list[float]:
        rewards = [
            task.reward(*each, **self._asked) for each in zip(prompts, completions, strict=True)
        ]
        self.rewards += rewards
        self.num_tokens += sum(map(len, found["completion_ids"]))
        return rewards

    def on_step_end(self, *_: object, **__: object) -> None:
        self._note()

    def on_train_begin(self, *_: object, **__: object) -> None:
        self._begin()

    def _note(self) -> None:
        say(
            Turn(
                seconds=time.perf_counter() - self._started,
                cpu_seconds=time.process_time() - self._cpu_started,
                num_samples=len(self.rewards),
                num_tokens=self.num_tokens,
                reward=sum(self.rewards) / len(self.rewards),
            )
        )
        self._begin()

    def _begin(self) -> None:
        await_turn()
        self.rewards, self.num_tokens = [], 0
        self._started, self._cpu_started = time.perf_counter(), time.process_time()


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings["threads"])
    if settings.get("keeps_memory"):
        memory.keep_freed()
    side = Side(settings)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(settings["model"], dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(settings["model"]),
            reward_funcs=side.reward,
            args=_settings(settings, folder),
            train_dataset=Dataset.from_dict(
                {"prompt": task.prompts(20_000, seed=settings["seed"])}
            ),
            callbacks=[side],
        )
        trainer.train()


def _settings(settings: dict[str, Any], folder: str) -> GRPOConfig:
    batch_size, micro = settings["batch_size"], settings["micro_batch_size"]
    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=settings["bf16"],
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        activation_checkpointing=False,
        gradient_checkpointing=False,
        # Prompts in the order in which ours come: rewards are of the same ones.
        shuffle_dataset=False,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=batch_size // micro,
        num_generations=settings["group_size"],
        max_completion_length=settings["max_tokens"],
        max_steps=100_000,
        learning_rate=settings["learning_rate"],
        beta=0.0,
        temperature=1.0,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        adam_beta2=0.99,
        max_grad_norm=1.0,
        optim="adamw_torch_fused",
        seed=settings["seed"],
        use_transformers_continuous_batching=settings["continuous"],
        transformers_continuous_batching_config=settings.get("continuous_config"),
    )


if __name__ == "__main__":
    main()
