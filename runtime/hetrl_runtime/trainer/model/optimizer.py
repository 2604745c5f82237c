"""The optimizer: AdamW with a short rise of the learning rate, and its state as tensors.

It moves what of the weights lies on this process; the gradient's norm is the whole model's.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hetrl_runtime.trainer.model.model import TrainedModel
from hetrl_runtime.trainer.parallel.tensors import divided_like, local

WARM_UP_STEPS = 5
"""Adam's first estimates come from few gradients; full steps on them can undo a model."""

MAX_GRADIENT_NORM = 1.0
_BETAS = (0.9, 0.99)
_MOMENTS = ("exp_avg", "exp_avg_sq")
_STEP, _MASTER = "step", "master"


def learning_rate_at(version: int, *, peak: float) -> float:
    """Return the rate at which ``version`` is trained, on the way up to ``peak``."""
    return peak * min(1.0, (version + 1) / WARM_UP_STEPS)


class Optimizer:
    """Moves a model's parameters, which keep their names in the saved state."""

    def __init__(self, model: TrainedModel, *, learning_rate: float) -> None:
        self._model = model
        self._learning_rate = learning_rate
        self._mine = {
            name: nn.Parameter(local(parameter.detach()))
            for name, parameter in model.named_parameters().items()
        }
        self._adam = torch.optim.AdamW(
            self._mine.values(),
            lr=learning_rate,
            betas=_BETAS,
            weight_decay=0.0,
            # One way through memory instead of ten. On a GPU PyTorch chooses well by itself.
            fused=True if model.device.type == "cpu" else None,
        )

    def step(self, norm: Tensor, *, version: int) -> None:
        """Move the parameters along their gradients, of the whole model's ``norm``; forget these.

        The norm is finite: one that is not would spoil every weight.
        """
        scale = (MAX_GRADIENT_NORM / (norm + 1e-6)).clamp(max=1.0)
        for name, parameter in self._model.named_parameters().items():
            mine = self._mine[name]
            # FSDP may have moved its part to other storage since.
            mine.data = local(parameter.detach())
            mine.grad = None if parameter.grad is None else local(parameter.grad).mul_(scale)
            parameter.grad = None
        for group in self._adam.param_groups:
            group["lr"] = learning_rate_at(version, peak=self._learning_rate)
        self._adam.step()
        self._adam.zero_grad()

    def skip(self) -> None:
        """Forget the gradients."""
        for parameter in self._model.named_parameters().values():
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold, by parameter: ``<name>:exp_avg`` and the like.

        Every process must call it; only the leader gets the result. Whole tensors, whatever the
        split, so that another split can go on from them. Where the model's files are less
        precise than its weights in training, these are among them: ``<name>:master``.
        """
        parameters = self._model.named_parameters()
        if self._model.is_in_half_precision:
            found = self._gather(_MASTER, {name: p.detach() for name, p in parameters.items()})
        else:
            found = {}
        if not self._num_steps:
            return found
        for key in _MOMENTS:
            moments = {
                name: divided_like(parameters[name], self._adam.state[mine][key])
                for name, mine in self._mine.items()
            }
            found |= self._gather(key, moments)
        steps = {f"{name}:{_STEP}": torch.tensor(float(self._num_steps)) for name in self._wholes}
        return found | (steps if self._model.place.rank == 0 else {})

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` returned to the leader. No tensors: from the beginning.

        Every process must call it; arguments of processes other than the leader are ignored.
        """
        first = next(iter(self._wholes))
        steps = self._model.share_with_all(tensors.get(f"{first}:{_STEP}", torch.zeros(())))
        self._adam.state.clear()
        if not steps:
            return
        parameters = self._model.named_parameters()
        for mine in self._mine.values():
            self._adam.state[mine] = {_STEP: steps.clone()}
        for key in _MOMENTS:
            targets = {
                name: divided_like(parameters[name], torch.zeros_like(mine))
                for name, mine in self._mine.items()
            }
            wholes = {name: tensors[f"{name}:{key}"] for name in self._wholes} if tensors else {}
            self._model.exchange.deal_out(wholes, targets)
            for name, mine in self._mine.items():
                self._adam.state[mine][key] = local(targets[name])

    @staticmethod
    def masters(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights among what ``state`` returned, by name; none if files are exact."""
        end = f":{_MASTER}"
        return {
            name.removesuffix(end): each for name, each in tensors.items() if name.endswith(end)
        }

    @property
    def _wholes(self) -> Mapping[str, object]:
        return self._model.exchange.wholes

    @property
    def _num_steps(self) -> int:
        return max((int(state[_STEP]) for state in self._adam.state.values()), default=0)

    def _gather(self, key: str, mine: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {f"{name}:{key}": whole for name, whole in self._model.gather(mine).items()}
