"""The expected response: one plain forward pass over the whole sequence."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from hetrl_runtime.rollout.engine import Generation


class Reference:
    """Log-probabilities of each policy version, without cache, batch or padding."""

    def __init__(self, folders: Mapping[int, Path], *, temperature: float) -> None:
        self._temperature = temperature
        self._models = {
            version: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
            for version, folder in folders.items()
        }

    @torch.inference_mode()
    def log_probs(self, prompt: Sequence[int], generation: Generation) -> torch.Tensor:
        """Return ``(T, V)``: row t is the distribution that response token t came from."""
        sequence = torch.tensor([[*prompt, *generation.tokens]])
        by_version = {
            version: torch.log_softmax(
                self._models[version](sequence).logits[0, len(prompt) - 1 : -1].float()
                / self._temperature,
                dim=-1,
            )
            for version in set(generation.versions)
        }
        rows = [by_version[v][t] for t, v in enumerate(generation.versions)]
        return torch.stack(rows)

    def chosen(self, prompt: Sequence[int], generation: Generation) -> list[float]:
        """Return the log-probability of each response token under the version that sampled it."""
        chosen = torch.tensor(generation.tokens)[:, None]
        return self.log_probs(prompt, generation).gather(1, chosen)[:, 0].tolist()

    def greedy(self, prompt: Sequence[int], generation: Generation) -> list[int]:
        """Return the most likely token at every place of the response."""
        return self.log_probs(prompt, generation).argmax(dim=-1).tolist()
