"""A reward model: reads a question and a response, and says how good that is, on one GPU.

It is a Hugging Face model for sequence classification with one output, as reward models are
published, and has a tokenizer and a template of its own. ``request_queue`` orders the
requests.
"""

# ruff: noqa: N803, N806  # shapes: B questions, T positions

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from hetrl_core.job.spec import ModelFiles
from hetrl_core.model.check import Use
from hetrl_runtime.compute import precision
from hetrl_runtime.compute.finite import objection_to_model
from hetrl_runtime.model_files.errors import ModelError
from hetrl_runtime.model_files.folder import checked_folder
from hetrl_runtime.model_files.loading import loading

_MAX_NAMED = 3
_MAX_TOKENS_PER_PASS = {"cuda": 16_384, "cpu": 4_096}


class Judged(NamedTuple):
    """A question and response to judge, as the reward model's tokens."""

    tokens: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens of question and response, and what the template puts around them."""
        return len(self.tokens)


class RewardModel:
    """A loaded reward model."""

    def __init__(self, files: ModelFiles, *, device: torch.device) -> None:
        """Load it.

        Raises:
            ModelError: it is not there, it has not one output, or it is not finite.
        """
        logging.disable_progress_bar()
        folder = checked_folder(files, use=Use.REWARD)
        with loading(f"model {files.source}"):
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            model, found = AutoModelForSequenceClassification.from_pretrained(
                folder,
                dtype=torch.float32,
                use_safetensors=True,
                output_loading_info=True,
                trust_remote_code=False,
            )
        # Of any family: what it asks for is known only now.
        if odd := (*found["missing_keys"], *found["unexpected_keys"]):
            raise ModelError(
                f"model {files.source} cannot be used: its weights and config.json differ in "
                f"{', '.join(sorted(odd)[:_MAX_NAMED])}"
            )
        if problem := objection_to_model(files.source, dict(model.named_parameters())):
            raise ModelError(problem)
        self._device = device
        dtype = precision.of_served_layers(
            device, model.config.hidden_size, rows=self.max_tokens_per_pass
        )
        self._model = model.to(device, dtype).eval().requires_grad_(requires_grad=False)

    @property
    def max_tokens_per_pass(self) -> int:
        """Tokens that one pass computes most efficiently."""
        return _MAX_TOKENS_PER_PASS[self._device.type]

    def reads(self, question: str, response: str) -> Judged:
        """Return a question and its response as the model reads them."""
        if not self._tokenizer.chat_template:
            return Judged(tuple(self._tokenizer(question + response)["input_ids"]))
        said = [
            {"role": "user", "content": question},
            {"role": "assistant", "content": response},
        ]
        text = self._tokenizer.apply_chat_template(said, tokenize=False)
        return Judged(tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"]))

    @torch.inference_mode()
    def look(self, judged: Sequence[Judged]) -> list[float]:
        """Return how good each response is; larger is better, without any scale."""
        longest = max(each.num_tokens for each in judged)
        tokens_BT = torch.full((len(judged), longest), self._padding)
        is_token_BT = torch.zeros_like(tokens_BT)
        for row, each in enumerate(judged):
            tokens_BT[row, : each.num_tokens] = torch.tensor(each.tokens)
            is_token_BT[row, : each.num_tokens] = 1
        lasts_B = is_token_BT.sum(dim=1) - 1
        scores_B = self._scores(
            tokens_BT.to(self._device), is_token_BT.to(self._device), lasts_B.to(self._device)
        )
        return list(scores_B.float().tolist())

    def _scores(self, tokens_BT: Tensor, is_token_BT: Tensor, lasts_B: Tensor) -> Tensor:
        if not hasattr(self._model, "score"):
            whole = self._model(input_ids=tokens_BT, attention_mask=is_token_BT)
            return cast("Tensor", whole.logits[:, 0])
        # The library takes the last token that is not padding, and padding often is the token that
        # ends a response, so that it would depend on a response's neighbours what is read of it.
        hidden = self._model.base_model(input_ids=tokens_BT, attention_mask=is_token_BT)
        rows = torch.arange(len(lasts_B), device=lasts_B.device)
        last_BD = hidden.last_hidden_state[rows, lasts_B]
        return cast("Tensor", self._model.score(last_BD)[:, 0])

    @property
    def _padding(self) -> int:
        padding, end = self._tokenizer.pad_token_id, self._tokenizer.eos_token_id
        return int(next((each for each in (padding, end) if each is not None), 0))
