"""HiGHS on one thread for every mixed-integer program: stoppable and repeatable."""

from collections.abc import Callable
from typing import Any

import pulp
from highspy import SolutionStatus, cb

RELATIVE_GAP = 1e-4
MAX_NODES = 20_000
"""Branch-and-bound nodes after which the best found so far is taken."""

MAX_SOLVER_SEED = 2**31 - 1


def run(
    program: pulp.LpProblem,
    *,
    should_stop: Callable[[], bool],
    seed: int,
    relative_gap: float = RELATIVE_GAP,
    max_nodes: int = MAX_NODES,
) -> bool:
    """Solve a program; tell whether it ended by itself, not by ``should_stop``."""
    was_stopped = False

    def watch(_kind: object, _message: str, seen: Any, answer: Any, _data: object) -> None:
        nonlocal was_stopped
        was_stopped = was_stopped or should_stop()
        answer.user_interrupt = was_stopped or seen.mip_node_count >= max_nodes

    program.solve(
        pulp.HiGHS(
            msg=False,
            threads=1,
            gapRel=relative_gap,
            random_seed=seed % MAX_SOLVER_SEED,
            # Presolving again at the root takes longer here than it saves.
            mip_allow_restart=False,
            callbackTuple=(watch, None),
            callbacksToActivate=[cb.HighsCallbackType.kCallbackMipInterrupt],
        )
    )
    return not was_stopped


def has_solution(program: pulp.LpProblem) -> bool:
    """Tell whether a program that was run found values for its variables."""
    status = program.solverModel.getInfo().primal_solution_status
    return bool(status == SolutionStatus.kSolutionStatusFeasible)


def dual_bound(program: pulp.LpProblem) -> float:
    """Return the value that no solution of a program that was run can pass."""
    return float(program.solverModel.getInfo().mip_dual_bound)
