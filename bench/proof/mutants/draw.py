"""``python -m bench.proof.mutants.draw``: prints mutants in a random order, as JSON lines.

It runs in the environment of cosmic-ray, which has no other package that this project needs.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from bench.proof.mutants.mutant import DrawnMutant, Mutant, changes_operator, key, rank
from bench.proof.mutants.quick_tests import SUBJECTS

OPERATORS = (
    *(
        f"ReplaceComparisonOperator_{change}"
        for change in (
            *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
            *("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt"),
            *("Lt_GtE", "LtE_Gt", "Gt_LtE", "GtE_Lt"),
        )
    ),
    *(
        f"ReplaceBinaryOperator_{change}"
        for change in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul")
    ),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceUnaryOperator_Delete_Not"),
)
"""Changes that a test can tell from the code. An ``==`` for an ``is`` is seldom one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a file where one of the changes can be made."""

    path: str
    operator: str
    index: int
    """Position among the places of the same change in the file."""

    line_number: int
    line: str
    occurrence: int

    @property
    def key(self) -> str:
        """The identity of the mutant that the change makes."""
        return key(self.path, self.operator, self.line, self.occurrence)


def main() -> None:
    """Print the first mutants of a seed's order."""
    parser = argparse.ArgumentParser(prog="python -m bench.proof.mutants.draw", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    found = [place for path in _files() for place in places(path, Path(path).read_text())]
    found.sort(key=lambda place: rank(place.key, options.seed))
    drawn = (mutant for place in found if (mutant := mutate(place)))
    for each in islice(drawn, options.count):
        print(json.dumps(asdict(each)))


def places(path: str, source: str) -> Iterator[Place]:
    """Yield every place of a file."""
    lines, nodes = source.splitlines(), list(ast_nodes(get_ast(source)))
    for name in OPERATORS:
        operator, seen = _operator(name), Counter[str]()
        starts = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for index, (number, _) in enumerate(starts):
            line = lines[number - 1].strip()
            yield Place(
                path=path,
                operator=name,
                index=index,
                line_number=number,
                line=line,
                occurrence=seen[line],
            )
            seen[line] += 1


def mutate(place: Place) -> DrawnMutant | None:
    """Make the change of a place; None if it is not one of an operator."""
    source = Path(place.path).read_text()
    mutated = mutate_code(source, _operator(place.operator), place.index)
    if not mutated or not changes_operator(source, mutated):
        return None
    mutant = Mutant(
        path=place.path,
        line_number=place.line_number,
        operator=place.operator,
        line=place.line,
        occurrence=place.occurrence,
        mutated_line=mutated.splitlines()[place.line_number - 1].strip(),
    )
    return DrawnMutant(mutant=mutant, source=mutated)


def _operator(name: str) -> Any:
    return get_operator(f"core/{name}")()


def _files() -> list[str]:
    return sorted({str(path) for subject in SUBJECTS for path in subject.files()})


if __name__ == "__main__":
    main()
