"""The entry point of a planner's process; the operator imports it without the planner itself.

The planner with its solvers takes 28 MiB and half a second to import. The operator's own process
never plans and need not spend that, so the imports are within functions.
"""

import resource

from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.units import MIB
from hetrl_operator.model.planning import Alternatives, InsufficientFreeGpus
from hetrl_operator.planning.request import PlanRequest


def limit_memory(memory_mib: int) -> None:
    """Limit the process's memory, so that a search that grows without end fails by itself."""
    limit = memory_mib * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def wake() -> None:
    """Import everything that an answer needs, and do nothing else."""
    from hetrl_operator.planning import worker  # noqa: F401, PLC0415


def answer(request: PlanRequest) -> Plan | Alternatives | Infeasible | InsufficientFreeGpus:
    """Answer a request with the planner."""
    from hetrl_operator.planning import worker  # noqa: PLC0415

    return worker.answer(request)
