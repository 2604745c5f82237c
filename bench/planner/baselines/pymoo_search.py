"""pymoo's genetic algorithm, with its own operators for choices, on HetRL's encoding.

Source: pymoo's documentation, ``GA`` with its defaults (population 100, binary tournaments,
duplicates eliminated), two-point crossover for lists of choices; mutation redraws two genes of an
individual on average, as ``ChoiceRandomMutation`` does. Broken limits are constraints.
"""

from contextlib import suppress

import numpy as np
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.core.mutation import Mutation
from pymoo.core.problem import ElementwiseProblem
from pymoo.core.termination import NoTermination
from pymoo.operators.crossover.pntx import TwoPointCrossover
from pymoo.optimize import minimize

from bench.planner.baselines.anytime import Run, Spent
from bench.planner.baselines.encoding import Encoding
from hetrl_planner.hetrl.search.starts import Starts
from hetrl_planner.layout.evaluation import Evaluation

POPULATION = 100
GENES_CHANGED = 2


class _Layouts(ElementwiseProblem):  # type: ignore[misc]
    def __init__(self, run: Run, encoding: Encoding) -> None:
        upper = np.array(encoding.upper)
        super().__init__(n_var=len(upper), n_obj=1, n_ieq_constr=1, xl=0, xu=upper, vtype=int)
        self._run, self._encoding = run, encoding

    def _evaluate(self, x, out, *args, **kwargs):  # type: ignore[no-untyped-def] # noqa: ARG002
        excess, value, _ = self._run.score(self._encoding.genome([int(gene) for gene in x]))
        out["F"], out["G"] = value, excess


class _RedrawGenes(Mutation):  # type: ignore[misc]
    def _do(self, problem, X, **kwargs):  # type: ignore[no-untyped-def] # noqa: N803
        rng = kwargs["random_state"]
        chosen = rng.random(X.shape) < GENES_CHANGED / X.shape[1]
        return np.where(chosen, rng.integers(0, problem.xu + 1, size=X.shape), X)


def search(run: Run, rng: np.random.Generator) -> Evaluation | None:
    """Return the best layout found, ``None`` if none fits."""
    encoding = Encoding(run.decoder)
    starts = Starts(run.decoder.fitting, rng)
    first = np.array([encoding.first(starts, rng) for _ in range(POPULATION)])
    algorithm = GA(
        pop_size=POPULATION, sampling=first, crossover=TwoPointCrossover(), mutation=_RedrawGenes()
    )
    with suppress(Spent):
        minimize(_Layouts(run, encoding), algorithm, NoTermination(), seed=int(rng.integers(2**31)))
    return run.best
