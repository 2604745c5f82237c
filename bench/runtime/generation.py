"""Generation alone: ours, transformers' two ways, and vLLM's build for CPUs, on the same prompts.

Every engine answers the same group-wise prompts at temperature 1, each response as long as it is
asked, so that all compute as many tokens; log-probabilities are asked of all that can give them.
Each is a process of its own with one thread and takes turns. Run as a module with an engine's
name, it is such a process.

    .venv/bin/python -m bench.runtime.generation ours '{"model": "...", ...}'
"""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bench.runtime.turns import Turn, await_turn, say

Request = tuple[list[int], int]
"""A prompt's tokens, and how many to answer with."""

Answer = Callable[[Sequence[Request]], Awaitable[int]]
"""Answers all and returns how many tokens of what was asked for."""


def requests(settings: dict[str, Any]) -> list[Request]:
    """Return what is asked of everyone."""
    draw = random.Random(settings["seed"])
    found: list[Request] = []
    for _ in range(settings["batch_size"] // settings["group_size"]):
        prompt = [draw.randrange(3, 99) for _ in range(12)]
        found += [
            (prompt, draw.randint(settings["min_tokens"], settings["max_tokens"]))
            for _ in range(settings["group_size"])
        ]
    return found


async def main() -> None:
    """Answer once a turn."""
    settings = json.loads(sys.argv[2])
    answer = await ENGINES[sys.argv[1]](settings)
    asked = requests(settings)
    while True:
        await asyncio.to_thread(await_turn)
        started, cpu_started = time.perf_counter(), time.process_time()
        num_tokens = await answer(asked)
        say(
            Turn(
                seconds=time.perf_counter() - started,
                cpu_seconds=time.process_time() - cpu_started,
                num_samples=len(asked),
                num_tokens=num_tokens,
                reward=0.0,
            )
        )


async def _ours(settings: dict[str, Any]) -> Answer:
    import torch  # noqa: PLC0415

    from hetrl_runtime.compute import memory  # noqa: PLC0415
    from hetrl_runtime.rollout.engine import EngineSettings, GenerationRequest  # noqa: PLC0415
    from hetrl_runtime.rollout.engines.transformers import TransformersEngine  # noqa: PLC0415

    torch.set_num_threads(settings["threads"])
    memory.keep_freed()
    engine = TransformersEngine(
        EngineSettings(
            model=settings["model"],
            concurrency=settings["places"],
            stop_tokens=(),
            max_sequence_tokens=12 + settings["max_tokens"],
        )
    )
    await engine.start()

    async def answer(asked: Sequence[Request]) -> int:
        found = await asyncio.gather(
            *(
                engine.generate(
                    GenerationRequest(id=str(n), prompt_tokens=tuple(prompt), max_tokens=size)
                )
                for n, (prompt, size) in enumerate(asked)
            )
        )
        return sum(len(each.tokens) for each in found)

    return answer


async def _generate(settings: dict[str, Any]) -> Answer:
    import torch  # noqa: PLC0415

    model = _library_model(settings)

    async def answer(asked: Sequence[Request]) -> int:
        num_tokens = 0
        for first in range(0, len(asked), settings["places"]):
            part = asked[first : first + settings["places"]]
            tokens = torch.tensor([prompt for prompt, _ in part])
            longest = max(size for _, size in part)
            output = model.generate(
                tokens,
                attention_mask=torch.ones_like(tokens),
                do_sample=True,
                top_k=0,
                min_new_tokens=longest,
                max_new_tokens=longest,
                output_logits=True,
                return_dict_in_generate=True,
            )
            scores = torch.log_softmax(torch.stack(output.logits, dim=1).float(), dim=-1)
            scores.gather(2, output.sequences[:, 12:, None])
            num_tokens += sum(size for _, size in part)
        return num_tokens

    return answer


async def _continuous(settings: dict[str, Any]) -> Answer:
    from transformers import GenerationConfig  # noqa: PLC0415
    from transformers.generation.configuration_utils import (  # noqa: PLC0415
        ContinuousBatchingConfig,
    )

    model = _library_model(settings)
    manager = model.init_continuous_batching(
        GenerationConfig(do_sample=True, top_k=0, eos_token_id=-1, pad_token_id=0),
        # Room for everything at once, as ours has.
        ContinuousBatchingConfig(
            page_size=32,
            num_blocks=settings["places"] * (2 + settings["max_tokens"] // 32),
            max_batch_tokens=max(512, settings["places"]),
            return_logprobs=True,
        ),
    )
    manager.start()

    async def answer(asked: Sequence[Request]) -> int:
        for prompt, size in asked:
            manager.add_request(prompt, max_new_tokens=size)
        waiting, num_tokens = len(asked), 0
        while waiting:
            found = await asyncio.to_thread(manager.get_result, timeout=1.0)
            if found is not None and found.is_finished():
                waiting -= 1
                num_tokens += len(found.generated_tokens)
            elif manager.background_thread_status.fatal_error is not None:
                raise manager.background_thread_status.fatal_error
        return num_tokens

    return answer


def _library_model(settings: dict[str, Any]) -> Any:
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    torch.set_num_threads(settings["threads"])
    return AutoModelForCausalLM.from_pretrained(settings["model"], dtype=torch.float32).eval()


async def _vllm(settings: dict[str, Any]) -> Answer:
    os.environ |= {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
    from vllm import LLM, SamplingParams  # noqa: PLC0415

    model = LLM(
        settings["model"],
        dtype="float32",
        max_num_seqs=settings["places"],
        enforce_eager=True,
        max_model_len=2048,
        enable_prefix_caching=True,
    )

    async def answer(asked: Sequence[Request]) -> int:
        found = model.generate(
            [{"prompt_token_ids": prompt} for prompt, _ in asked],
            [
                SamplingParams(temperature=1.0, max_tokens=size, ignore_eos=True, logprobs=0)
                for _, size in asked
            ],
            use_tqdm=False,
        )
        return sum(len(each.outputs[0].token_ids) for each in found)

    return answer


ENGINES = {"ours": _ours, "generate": _generate, "continuous": _continuous, "vllm": _vllm}

if __name__ == "__main__":
    asyncio.run(main())
