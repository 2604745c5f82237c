"""Rate of one rollout replica as a function of its concurrency.

A replica decodes ``b`` sequences together with continuous batching. More sequences share
each reading of the weights, so the rate grows with ``b``, ever more slowly: it is concave,
which the MILP relies on.
"""

from dataclasses import dataclass
from functools import cached_property

from hetrl_planner.cost import compute
from hetrl_planner.cost.network import all_reduce_seconds, inside_machine, transfer_seconds
from hetrl_planner.cost.stage import PlacedStage
from hetrl_planner.problem.workload import Workload

ENGINE_STEP_SECONDS = 1e-3
"""Overhead of an engine per decoding step, beside the GPU's work. Ours."""


@dataclass(frozen=True, kw_only=True)
class GenerationCost:
    """One replica of a configuration; rates in trajectories a second."""

    work: Workload
    stages: tuple[PlacedStage, ...]
    """First to last."""

    @property
    def _context_tokens(self) -> float:
        """Tokens that a sequence attends to, averaged over its response."""
        return self.work.prompt_tokens + self.work.response_tokens / 2

    def token_seconds(self, concurrency: float) -> float:
        """Return the time in which every running sequence gains one token.

        With pipeline stages the sequences travel in as many microbatches, so that each
        stage works on ``b/pp`` at a time and the slowest stage sets the pace.
        """
        sequences = concurrency / len(self.stages)
        slowest = max(
            self._stage_seconds(stage, sequences) + self._hop_seconds(stage, sequences)
            for stage in self.stages
        )
        return ENGINE_STEP_SECONDS + len(self.stages) * slowest

    def sample_seconds(self, concurrency: float) -> float:
        """Return the time from a trajectory's start to its end.

        ``L·t(b) + b·t_prefill``: while it holds its place, each of the ``b`` places is
        refilled once, and a prefill holds up all others.
        """
        decode = self.work.response_tokens * self.token_seconds(concurrency)
        return decode + concurrency * self._prefill_seconds

    def samples_per_second(self, concurrency: float) -> float:
        """Return the rate with ``concurrency`` trajectories at once (Little's law)."""
        if concurrency <= 0:
            return 0.0
        if concurrency not in self._rates:
            seconds = self.sample_seconds(concurrency) + self._tail_seconds
            self._rates[concurrency] = concurrency / seconds
        return self._rates[concurrency]

    @cached_property
    def _rates(self) -> dict[float, float]:
        """By concurrency: searches request the same few for caches of many sizes."""
        return {}

    def binding(self, concurrency: float) -> str:
        """Name the larger side of the decoding roofline."""
        stage = self.slowest_stage(concurrency)
        sequences = concurrency / len(self.stages)
        hbm = self._decode(compute.decode_hbm_seconds, stage, sequences)
        flops = self._decode(compute.decode_flop_seconds, stage, sequences)
        if self._tensor_parallel_seconds(stage, sequences) > max(hbm, flops):
            return "tensor-parallel communication"
        return "HBM bandwidth" if hbm >= flops else "compute"

    def slowest_stage(self, concurrency: float) -> PlacedStage:
        """Return the stage that sets the pace."""
        sequences = concurrency / len(self.stages)
        return max(self.unlike_stages, key=lambda each: self._stage_seconds(each, sequences))

    @cached_property
    def unlike_stages(self) -> tuple[PlacedStage, ...]:
        """The stages without those that equal an earlier one."""
        return tuple(dict.fromkeys(self.stages))

    @cached_property
    def _tail_seconds(self) -> float:
        """Return the wait for a batch's longest response, which only a synchronous step has.

        The others have ended by then, so the last tokens come at the pace of one sequence.
        """
        if not self.work.is_synchronous:
            return 0.0
        tail_tokens = max(0, self.work.max_response_tokens - self.work.response_tokens)
        return tail_tokens * self.token_seconds(1)

    def _stage_seconds(self, stage: PlacedStage, sequences: float) -> float:
        roofline = max(
            self._decode(compute.decode_hbm_seconds, stage, sequences),
            self._decode(compute.decode_flop_seconds, stage, sequences),
        )
        return roofline + self._tensor_parallel_seconds(stage, sequences)

    def _decode(self, term: compute.DecodeTerm, stage: PlacedStage, sequences: float) -> float:
        return term(
            stage.shard, stage.kind, sequences=sequences, context_tokens=self._context_tokens
        )

    @cached_property
    def _prefill_seconds(self) -> float:
        """Return the time of one prompt through all stages."""
        tokens = self.work.prompt_tokens
        return sum(
            compute.prefill_seconds(stage.shard, stage.kind, prompt_tokens=tokens)
            + self._tensor_parallel_seconds(stage, tokens)
            for stage in self.stages
        )

    def _tensor_parallel_seconds(self, stage: PlacedStage, tokens: float) -> float:
        """Two all-reduces of the hidden state a layer (Shoeybi et al., Megatron-LM, 2019)."""
        size_bytes = tokens * self.work.architecture.hidden_size * compute.BYTES_PER_WEIGHT
        once = all_reduce_seconds(
            size_bytes, members=stage.shard.tensor, channel=inside_machine(stage.kind)
        )
        return 2 * stage.shard.num_layers * once

    def _hop_seconds(self, stage: PlacedStage, sequences: float) -> float:
        """Return the time to hand on hidden states; the last stage hands on tokens, for nothing."""
        if stage.hop is None:
            return 0.0
        hidden = self.work.architecture.hidden_size * compute.BYTES_PER_WEIGHT
        return transfer_seconds(sequences * hidden, stage.hop)
