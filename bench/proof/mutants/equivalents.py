"""The list of known equivalent mutants: those that behave as the code does."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from bench.proof.mutants.mutant import Mutant

PATH = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent:
    """A mutant that is known to behave as the code does."""

    path: str
    operator: str
    line: str
    mutated_line: str
    reason: str

    def is_of(self, mutant: Mutant) -> bool:
        """Tell whether a mutant is this one."""
        return (self.path, self.operator, self.line, self.mutated_line) == (
            mutant.path,
            mutant.operator,
            mutant.line,
            mutant.mutated_line,
        )


def equivalents(path: Path = PATH) -> list[Equivalent]:
    """Return the list."""
    return [Equivalent(**each) for each in tomllib.loads(path.read_text()).get("mutant", ())]
