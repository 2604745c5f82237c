"""The optimizer: AdamW with a short rise of the learning rate, and its state as tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hetrl_runtime.trainer.peers import Peers

WARM_UP_STEPS = 5
"""Adam's first estimates come from few gradients; full steps on them can undo a model."""

MAX_GRADIENT_NORM = 1.0
_BETAS = (0.9, 0.99)


class Optimizer:
    """Moves named parameters. ``parameters`` keep their names in the saved state."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, learning_rate: float) -> None:
        self._parameters = dict(parameters)
        self._learning_rate = learning_rate
        self._adam = torch.optim.AdamW(
            self._parameters.values(), lr=learning_rate, betas=_BETAS, weight_decay=0.0
        )

    def learning_rate(self, version: int) -> float:
        """Return the rate at which ``version`` is trained."""
        return self._learning_rate * min(1.0, (version + 1) / WARM_UP_STEPS)

    def step(self, *, version: int) -> float:
        """Move the parameters along their gradients and forget these; return the norm."""
        norm = nn.utils.clip_grad_norm_(self._parameters.values(), MAX_GRADIENT_NORM)
        for group in self._adam.param_groups:
            group["lr"] = self.learning_rate(version)
        self._adam.step()
        self._adam.zero_grad()
        return float(norm)

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold, by parameter: ``<name>:exp_avg`` and the like."""
        return {
            f"{name}:{key}": value.detach().cpu()
            for name, parameter in self._parameters.items()
            for key, value in self._adam.state[parameter].items()
        }

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` returned. No tensors: from the beginning."""
        for name, parameter in self._parameters.items():
            found = {
                key.removeprefix(f"{name}:"): value
                for key, value in tensors.items()
                if key.startswith(f"{name}:")
            }
            # Adam counts its steps on the CPU and keeps its averages beside the parameter.
            self._adam.state[parameter] = {
                key: value if key == "step" else value.to(parameter.device)
                for key, value in found.items()
            }

    def copy_from_leader(self, peers: Peers) -> None:
        """Take over the state of rank 0, which may have read it from a checkpoint."""
        has_state = torch.tensor([bool(self.state())], dtype=torch.int64)
        peers.copy_from_leader([has_state])
        if not has_state:
            return
        for parameter in self._parameters.values():
            state = self._adam.state[parameter]
            state.setdefault("step", torch.zeros(()))
            for key in ("exp_avg", "exp_avg_sq"):
                state.setdefault(key, torch.zeros_like(parameter))
            peers.copy_from_leader(state[key] for key in ("step", "exp_avg", "exp_avg_sq"))
