"""The prompt of each group: the data in the order of the pass, and what of them is left out."""

from collections import Counter

from hetrl_runtime.coordinator.rules.deadlines import DATA_INVALID
from hetrl_runtime.data.left_out import LeftOutPrompt, LeftOutReason, notices
from hetrl_runtime.data.open_data import order_of
from hetrl_runtime.data.prompt import Prompt, PromptSource
from hetrl_runtime.wire.values import Ending


class Prompts:
    """The prompt of every group, over as many passes as the run takes."""

    def __init__(self, file: PromptSource, *, seed: int) -> None:
        self._file = file
        self._order = order_of(file, seed=seed)
        self._left_out: dict[int, LeftOutPrompt] = {}

    def of_group(self, group: int) -> Prompt:
        """Return a group's prompt: the same for the same file and seed, in every process."""
        return self._file[self.index(group)]

    def index(self, group: int) -> int:
        """Return the place of a group's prompt in the data, from zero."""
        return self._order.index(group)

    def leave_out(self, prompt: LeftOutPrompt) -> bool:
        """Leave a prompt out of all passes; return whether that is new."""
        is_new = prompt.index not in self._left_out
        self._left_out.setdefault(prompt.index, prompt)
        return is_new

    def is_left_out(self, group: int) -> bool:
        """Tell whether a group's prompt is left out while others are not."""
        return bool(self._left_out and self.num_usable) and self.index(group) in self._left_out

    @property
    def num_usable(self) -> int:
        """Prompts that are not left out."""
        return len(self) - len(self._left_out)

    @property
    def num_left_out(self) -> Counter[LeftOutReason]:
        """How many prompts are left out, by reason."""
        return Counter(each.reason for each in self._left_out.values())

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know of the prompts that are left out."""
        return notices(self._left_out.values(), total=len(self))

    @property
    def ending(self) -> Ending | None:
        """How a run ends that has no prompt to use."""
        if self.num_usable:
            return None
        reasons = "; ".join(self.notices)
        return Ending(reason=DATA_INVALID, message=f"no prompt can be used: {reasons}")

    def __len__(self) -> int:
        return len(self._file)
