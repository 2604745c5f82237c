"""A stage of a critic: a policy's layers under a head that says one number a position."""

# ruff: noqa: N803  # shapes: B trajectories, R response positions

from typing import Any, ClassVar

from torch import Tensor, autocast, nn

from hetrl_runtime.trainer.parallel.stage import Stage


class ValueHead(nn.Linear):
    """One number for each hidden state, in float32 whatever the layers below compute in.

    bfloat16 tells numbers near one apart by 1/128.
    """

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the values."""
        with autocast(hidden.device.type, enabled=False):
            return nn.functional.linear(hidden.float(), self.weight.float())


class ValueStage(Stage):
    """The last stage returns what is still to come when a token is to be sampled ``(B, R)``."""

    SCORES_TOKENS: ClassVar[bool] = False

    HEAD: ClassVar[str] = "score.weight"
    """As in transformers' classes that classify sequences and tokens."""

    NUM_SCORES: ClassVar[int] = 1

    @classmethod
    def fit(cls, model: Any) -> None:
        """Put a head of zeros in the place of the one that scores tokens."""
        model.config.tie_word_embeddings = False
        if model.lm_head is None:
            return
        device = model.lm_head.weight.device
        model.lm_head = ValueHead(model.config.hidden_size, 1, bias=False, device=device)
        nn.init.zeros_(model.lm_head.weight)

    def _scores(self, logits_BRV: Tensor, responses_BR: Tensor) -> tuple[Tensor, ...]:
        del responses_BR
        # Not a view: FSDP warns of those that come out of a module.
        return (logits_BRV.squeeze(2).clone(),)
