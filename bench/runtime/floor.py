"""What a step cannot do without, each part alone: what is left where all else costs nothing.

    .venv/bin/python -m bench.runtime.floor

On a CPU that multiplies nothing faster than float32, both sides of ``steps`` spend most of a wide
model's step in matrix products. So ours and TRL's take turns as there, and after each turn the
products of as many tokens are computed by themselves on the same core, by the fastest of torch's
kernels. Beside them stand AdamW, and weights on their way from a trainer to an engine: converted to
what files hold, and laid out for the engine. Not there: attention, norms, sampling, and Python.

A step's products are counted as ours computes them, which is less than TRL does: a group's prompt
once, nothing for padding, nothing for a response's last token. The longest response has as many
tokens as it may, as it does in nearly all steps; a decoding step has as many rows as on average.

Shapes: N tokens, I inputs, O outputs.
"""

# ruff: noqa: N806  # shape suffixes

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own custom
from torch import Tensor, nn

from bench.runtime import steps, task
from bench.runtime.turns import Turn
from hetrl_runtime import memory

RUNS = Path("runs/proof-speed-floor")
CASE = next(each for each in steps.CASES if (each.size, each.lengths) == (task.LARGE, task.SHORT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Seconds of processor time that a step's parts take by themselves."""

    training: float
    prefill: float
    decoding: float
    adamw: float
    weights: float

    @property
    def products(self) -> float:
        """What is multiplied."""
        return self.training + self.prefill + self.decoding

    @property
    def whole(self) -> float:
        """All parts."""
        return self.products + self.adamw + self.weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One turn of both sides, and the floors of as many tokens."""

    ours: Turn
    trl: Turn
    ours_floor: Floor
    trl_floor: Floor


class Parts:
    """The parts of a case's step, on parameters of its model's shapes."""

    def __init__(self, case: steps.Case) -> None:
        self._case = case
        self._parameters = [nn.Parameter(torch.randn(each) * 0.02) for each in shapes(case.size)]
        self._matrices = [each.detach() for each in self._parameters]
        self._gradients = [torch.zeros_like(each) for each in self._matrices]
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        self._adamw = torch.optim.AdamW(self._parameters, lr=0.0, weight_decay=0.0, fused=True)

    @torch.no_grad()
    def floor(self, num_tokens: int) -> Floor:
        """Return what a step takes in which ``num_tokens`` are sampled and trained on."""
        case = self._case
        num_prompts = case.batch_size // case.group_size
        num_prompt_tokens = num_prompts * task.PROMPT_TOKENS
        num_places = num_prompt_tokens + num_tokens - case.batch_size
        return Floor(
            training=_seconds(lambda: self._train(num_places)),
            prefill=_seconds(lambda: self._prefill(num_prompt_tokens - num_prompts)),
            decoding=self._decode(num_tokens),
            adamw=_seconds(self._adamw.step),
            weights=_seconds(self._hand_over),
        )

    def _inputs(self, num_tokens: int) -> list[Tensor]:
        by_size = {each.shape[1]: torch.randn(num_tokens, each.shape[1]) for each in self._matrices}
        return [by_size[each.shape[1]] for each in self._matrices]

    def _train(self, num_tokens: int) -> None:
        """Multiply forward, and twice for each matrix on the way back."""
        for inputs_NI, matrix_OI, gradient_OI in zip(
            self._inputs(num_tokens), self._matrices, self._gradients, strict=True
        ):
            outputs_NO = F.linear(inputs_NI, matrix_OI)
            torch.mm(outputs_NO, matrix_OI)
            torch.mm(outputs_NO.t(), inputs_NI, out=gradient_OI)

    def _prefill(self, num_tokens: int) -> None:
        for inputs_NI, matrix_OI in zip(self._inputs(num_tokens), self._matrices, strict=True):
            F.linear(inputs_NI, matrix_OI)

    def _decode(self, num_tokens: int) -> float:
        """Return what all decoding steps take with the kernel that is fastest now."""
        num_steps = self._case.lengths.most
        rows = -(-num_tokens // num_steps)
        inputs = self._inputs(rows)
        return num_steps * min(
            statistics.median(_seconds(lambda way=way: way(inputs)) for _ in range(3))  # type: ignore[misc]
            for way in decoders(self._matrices, rows)
        )

    def _hand_over(self) -> None:
        files = [each.to(self._case.size.files) for each in self._matrices]
        _laid_out([each.float() for each in files], self._case.batch_size)


def shapes(size: task.Size) -> Iterator[tuple[int, int]]:
    """Yield the shapes ``(O, I)`` of a model's matrices, the vocabulary's last."""
    hidden, wide = size.hidden_size, size.feed_forward_size
    heads, shared = size.num_heads * size.head_size, size.num_kv_heads * size.head_size
    for _ in range(size.num_layers):
        yield from [(heads, hidden), (shared, hidden), (shared, hidden), (hidden, heads)]
        yield from [(wide, hidden), (wide, hidden), (hidden, wide)]
    yield task.VOCABULARY_SIZE, hidden


def decoders(
    matrices: Sequence[Tensor], rows: int
) -> Iterator[Callable[[Sequence[Tensor]], list[Tensor]]]:
    """Yield torch's ways to multiply a few rows with each matrix, which may be laid out before."""
    by_dnn = _laid_out(matrices, rows)
    by_mkl = [torch.ops.mkl._mkl_reorder_linear_weight(each, rows) for each in matrices]
    yield lambda inputs: [F.linear(*each) for each in zip(inputs, matrices, strict=True)]
    yield lambda inputs: [
        torch.ops.mkldnn._linear_pointwise(*each, None, "none", [], "")
        for each in zip(inputs, by_dnn, strict=True)
    ]
    yield lambda inputs: [
        torch.ops.mkl._mkl_linear(*each, None, rows)
        for each in zip(inputs, by_mkl, matrices, strict=True)
    ]


def _laid_out(matrices: Sequence[Tensor], rows: int) -> list[Tensor]:
    return [torch.ops.mkldnn._reorder_linear_weight(each, rows) for each in matrices]


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def measure(trls: str, *, num_turns: int) -> Iterator[Measured]:
    """Yield turns after one of warm-up; ``trls`` is TRL's setting, of those that are tried."""
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    memory.keep_freed()
    model = RUNS / "model"
    task.make_model(model, CASE.size, CASE.lengths)
    told = CASE.told(model)
    parts = Parts(CASE)
    with ExitStack() as opened:
        ours = opened.enter_context(steps.side_of("ours", told, {core}))
        trl = opened.enter_context(steps.side_of("trl", told | dict(CASE.trls())[trls], {core}))
        for number in range(1 + num_turns):
            turns = ours.take_turn(), trl.take_turn()
            floors = [parts.floor(each.num_tokens) for each in turns]
            if number:
                yield Measured(
                    ours=turns[0], trl=turns[1], ours_floor=floors[0], trl_floor=floors[1]
                )


def table(found: Sequence[Measured]) -> str:
    """Return medians of all turns, as Markdown."""

    def row(name: str, of: Callable[[Turn, Floor], float]) -> str:
        ours = statistics.median(of(each.ours, each.ours_floor) for each in found)
        trl = statistics.median(of(each.trl, each.trl_floor) for each in found)
        return f"| {name} | {ours:.3g} | {trl:.3g} |"

    def least(of: Callable[[Floor], float]) -> float:
        return statistics.median(each.trl.cpu_seconds / of(each.ours_floor) for each in found)

    ratio = statistics.median(each.trl.cpu_seconds / each.ours.cpu_seconds for each in found)
    return "\n".join(
        [
            "| seconds of a step, medians | ours | TRL |",
            "|---|---|---|",
            row("whole", lambda turn, _: turn.cpu_seconds),
            *(
                row(f"{each.name}, alone", lambda _, floor, name=each.name: getattr(floor, name))  # type: ignore[misc]
                for each in fields(Floor)
            ),
            row("these together", lambda _, floor: floor.whole),
            row("tokens a sample", lambda turn, _: turn.num_tokens / turn.num_samples),
            "",
            f"TRL's step is {ratio:.2f} times ours, {least(lambda each: each.products):.2f} times "
            f"its products, and {least(lambda each: each.whole):.2f} times all these parts of it.",
        ]
    )


def main() -> None:
    """Measure, keep every turn, and print medians."""
    parser = argparse.ArgumentParser(description="What a step cannot do without.")
    parser.add_argument("--turns", type=int, default=15, help="timed, after one of warm-up")
    parser.add_argument(
        "--trl", choices=dict(CASE.trls()), default="passes of 8", help="its setting"
    )
    arguments = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    found: list[Measured] = []
    for each in measure(arguments.trl, num_turns=arguments.turns):
        found.append(each)
        (RUNS / "turns.json").write_text(json.dumps([asdict(each) for each in found], indent=1))
        print(f"turn {len(found)} of {arguments.turns}: {each}", flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
