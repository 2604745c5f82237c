"""Passes through a stage, or through a pipeline of them by PyTorch's schedules.

A pipeline runs one forward, one backward (1F1B, Narayanan et al., PipeDream, 2019): a stage
holds activations of as many passes as there are stages from it to the end, not of all.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from hetrl_core.plan.plan import TrainingMode
from hetrl_runtime.trainer.parallel import sharding
from hetrl_runtime.trainer.parallel.mesh import Mesh
from hetrl_runtime.trainer.parallel.passes import Pass
from hetrl_runtime.trainer.parallel.stage import Stage, handed_on_as

Scores = tuple[Tensor, ...]
"""What the last stage says of every response position, each ``(B, R)``."""

Loss = Callable[[Pass, Scores], Tensor]
"""A pass's share of the loss."""

Scored = tuple[Pass, Scores]


class Runner(Protocol):
    """A runner of passes, forward only or forward and backward."""

    def score(self, passes: Sequence[Pass]) -> Iterator[Scored]:
        """Yield passes with their scores; only on the last stage."""
        ...

    def backward(self, passes: Sequence[Pass], loss: Loss) -> None:
        """Add the gradients of the passes' losses up; ``loss`` is asked on the last stage."""
        ...


class OneStage:
    """One pass after the other."""

    def __init__(self, stage: Stage, device: torch.device, mode: TrainingMode) -> None:
        self._stage = stage
        self._mode = mode
        self._device = device

    def score(self, passes: Sequence[Pass]) -> Iterator[Scored]:
        """Yield every pass with its scores."""
        for each in passes:
            yield each, self._forward(each)

    def backward(self, passes: Sequence[Pass], loss: Loss) -> None:
        """Add gradients up, one pass's activations at a time."""
        for number, each in enumerate(passes, start=1):
            sharding.before_pass(self._stage, self._mode, is_last=number == len(passes))
            torch.autograd.backward(loss(each, self._forward(each)))

    def _forward(self, each: Pass) -> Scores:
        batch = each.batch.to(self._device)
        found = self._stage(
            batch.tokens_BT,
            is_token_BT=batch.is_token_BT,
            prompts_B=each.batch.prompts_B,
            responses_BR=batch.responses_BR,
        )
        return cast("Scores", found)


class Pipeline:
    """All passes at once, each stage working on another; they must be of one shape."""

    def __init__(self, stage: Stage, mesh: Mesh, *, hidden_size: int) -> None:
        self._stage = stage
        self._mesh = mesh
        self._hidden_size = hidden_size

    def score(self, passes: Sequence[Pass]) -> Iterator[Scored]:
        """Yield passes with scores on the last stage."""
        found = self._run(passes, None)
        if found is not None:
            size = len(passes[0].batch)
            split = zip(*(torch.split(tensor, size) for tensor in found), strict=True)
            yield from zip(passes, split, strict=True)

    def backward(self, passes: Sequence[Pass], loss: Loss) -> None:
        """Add gradients up, of passes on their way through the stages."""
        self._run(passes, loss)

    def _run(self, passes: Sequence[Pass], loss: Loss | None) -> Scores | None:
        place, device = self._mesh.place, self._mesh.device

        def loss_of(scores: Scores, numbers: Tensor) -> Tensor:
            assert loss is not None
            return loss(passes[int(numbers[0])], scores)

        num_places = max(each.batch.num_places for each in passes)
        schedule = Schedule1F1B(
            self._pipeline_stage(passes[0], num_places, is_trained=loss is not None),
            len(passes),
            loss_of if loss else None,
            # Losses are shares of a sum.
            scale_grads=False,
        )
        whole: dict[str, Any] = {
            "is_token_BT": torch.cat([each.batch.is_token_BT for each in passes]).to(device),
            "prompts_B": torch.cat([each.batch.prompts_B for each in passes]).to(device),
            "responses_BR": torch.cat([each.batch.responses_BR for each in passes]).to(device),
            "num_places": num_places,
        }
        tokens = torch.cat([each.batch.tokens_BT for each in passes]).to(device)
        inputs = (tokens,) if place.is_first_stage else ()
        if loss is None:
            return cast("Scores | None", schedule.eval(*inputs, **whole))
        target = torch.arange(len(passes)) if place.is_last_stage else None
        schedule.step(*inputs, target=target, return_outputs=False, **whole)
        return None

    def _pipeline_stage(self, like: Pass, num_places: int, *, is_trained: bool) -> PipelineStage:
        """Return the stage for passes of one shape, set up without exchanging shapes."""
        place = self._mesh.place
        num_rows, num_positions = like.batch.tokens_BT.shape
        hidden = torch.empty(
            *((1, num_places) if self._stage.is_packed else (num_rows, num_positions)),
            self._hidden_size,
            dtype=handed_on_as(self._mesh.device),
            device="meta",
            requires_grad=is_trained,
        )
        scores = torch.empty(num_rows, like.batch.num_response_positions, device="meta")
        tokens = torch.empty(num_rows, num_positions, dtype=torch.int64, device="meta")
        return PipelineStage(
            self._stage,
            place.stage,
            place.split.num_stages,
            self._mesh.device,
            input_args=tokens if place.is_first_stage else hidden,
            output_args=(scores,) * self._stage.NUM_SCORES if place.is_last_stage else hidden,
            group=self._mesh.stages.get_group(),
        )
