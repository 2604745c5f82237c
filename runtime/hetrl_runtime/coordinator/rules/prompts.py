"""The prompt of each group: the data in the order of the pass."""

from hetrl_runtime.data.order import PassOrder
from hetrl_runtime.data.prompt import Prompt, PromptSource


class Prompts:
    """The prompt of every group, over as many passes as the run takes."""

    def __init__(self, file: PromptSource, *, seed: int) -> None:
        self._file = file
        self._order = PassOrder(num_prompts=len(file), seed=seed)

    def of_group(self, group: int) -> Prompt:
        """Return a group's prompt: the same for the same file and seed, in every process."""
        return self._file[self._order.index(group)]

    def __len__(self) -> int:
        return len(self._file)
