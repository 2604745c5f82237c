"""Speed of the transformers engine compared with plain batched ``generate`` of the library.

Both answer the same prompts on one thread, with a tiny Qwen3 of random weights. The library
pads a batch and runs until its longest response ends; the engine refills each place as soon as
it is free, so it gains if lengths differ.

    .venv/bin/python -m bench.engines [--sequences 2048] [--places 256] [--members 8]
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM

from hetrl_runtime.rollout.engine import EngineSettings, GenerationRequest
from hetrl_runtime.rollout.engines.transformers import TransformersEngine

VOCABULARY = 128
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=2048)
    parser.add_argument("--places", type=int, default=256)
    parser.add_argument("--members", type=int, default=8, help="responses of one prompt")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = a_model(Path(folder))
        for lengths in (range(4, 9), range(4, 65)):
            requests = some_requests(
                arguments.sequences, members=arguments.members, lengths=lengths
            )
            engine = asyncio.run(tokens_per_second_of_engine(model, requests, arguments.places))
            library = tokens_per_second_of_library(model, requests, arguments.places)
            print(f"responses of {lengths.start} to {lengths.stop - 1} tokens")
            print(f"  transformers engine: {engine:>9,.0f} tokens/s")
            print(f"  plain generate:      {library:>9,.0f} tokens/s")


def a_model(folder: Path) -> Path:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        eos_token_id=1,
        pad_token_id=0,
        bos_token_id=None,
        max_position_embeddings=2048,
    )
    model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    print(f"model: {sum(each.numel() for each in model.parameters()):,} parameters")
    return folder


def some_requests(count: int, *, members: int, lengths: range) -> list[GenerationRequest]:
    draw = random.Random(0)
    prompts = [
        tuple(draw.randrange(3, VOCABULARY) for _ in range(draw.randint(8, 12)))
        for _ in range(-(-count // members))
    ]
    return [
        GenerationRequest(
            id=str(index), prompt_tokens=prompts[index // members], max_tokens=draw.choice(lengths)
        )
        for index in range(count)
    ]


async def tokens_per_second_of_engine(
    model: Path, requests: Sequence[GenerationRequest], places: int
) -> float:
    engine = TransformersEngine(
        EngineSettings(
            model=str(model), concurrency=places, max_sequence_tokens=128, stop_tokens=(1,)
        )
    )
    await engine.start()
    rates = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        generations = await asyncio.gather(*map(engine.generate, requests))
        seconds = time.perf_counter() - started
        rates.append(sum(len(each.tokens) for each in generations) / seconds)
    await engine.stop()
    return max(rates)


def tokens_per_second_of_library(
    folder: Path, requests: Sequence[GenerationRequest], places: int
) -> float:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rates = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        num_tokens = sum(
            _generate(model, requests[first : first + places])
            for first in range(0, len(requests), places)
        )
        rates.append(num_tokens / (time.perf_counter() - started))
    return max(rates)


def _generate(model: Qwen3ForCausalLM, requests: Sequence[GenerationRequest]) -> int:
    """Answer one padded batch; return the tokens that were asked for, not those after them."""
    width = max(len(each.prompt_tokens) for each in requests)
    tokens = torch.zeros(len(requests), width, dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, each in enumerate(requests):
        tokens[row, width - len(each.prompt_tokens) :] = torch.tensor(each.prompt_tokens)
        mask[row, width - len(each.prompt_tokens) :] = 1
    output = model.generate(
        tokens,
        attention_mask=mask,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=max(each.max_tokens for each in requests),
        output_logits=True,
        return_dict_in_generate=True,
    )
    log_probs = torch.log_softmax(torch.stack(output.logits, dim=1).float(), dim=-1)
    responses = output.sequences[:, width:]
    log_probs.gather(2, responses[..., None])
    lengths = [
        min(each.max_tokens, _length(response))
        for each, response in zip(requests, responses.tolist(), strict=True)
    ]
    return sum(lengths)


def _length(response: Sequence[int]) -> int:
    return response.index(1) + 1 if 1 in response else len(response)


if __name__ == "__main__":
    main()
