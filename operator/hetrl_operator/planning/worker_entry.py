"""Where a planner's process begins, named by the operator without importing what it runs.

The planner with its solvers takes 28 MiB and half a second, which the operator's own process,
that never plans, need not spend: hence the imports within functions.
"""

import resource

from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.units import MIB
from hetrl_operator.model.observed import Alternatives, InsufficientFreeGpus
from hetrl_operator.planning.request import PlanRequest


def limit_memory(memory_mib: int) -> None:
    """Let a search that grows without end fail by itself instead of taking the operator down."""
    limit = memory_mib * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def wake() -> None:
    """Import all that answering needs, and do nothing else."""
    from hetrl_operator.planning import worker  # noqa: F401, PLC0415


def answer(request: PlanRequest) -> Plan | Alternatives | Infeasible | InsufficientFreeGpus:
    """Answer with all that the planner has."""
    from hetrl_operator.planning import worker  # noqa: PLC0415

    return worker.answer(request)
