"""The cases of the proof: a run each, its faults, and what must hold in spite of them."""

from dataclasses import dataclass

from bench.proof.kill import fault_injection
from bench.proof.kill.arrangement import Layout, Work
from bench.proof.kill.fault_injection import FaultInjector

STRIKES_A_SEED = 42
SEEDS = (1, 2, 3, 4, 5)
_WORK = Work(steps=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run and its faults."""

    name: str
    what: str
    """In words, for the page."""

    inject: FaultInjector
    seed: int = 1
    work: Work = _WORK

    @property
    def title(self) -> str:
        """What its folder is called."""
        return f"{self.name}-{self.seed}"


CASES = (
    Case(name="untouched", what="no fault", inject=fault_injection.nothing),
    *(
        Case(
            name="kills",
            what=f"{STRIKES_A_SEED} kills at random moments",
            seed=seed,
            inject=fault_injection.kills(STRIKES_A_SEED),
        )
        for seed in SEEDS
    ),
    Case(
        name="broadcast",
        what=f"{STRIKES_A_SEED} kills at random moments while weights are broadcast",
        inject=fault_injection.kills_amid_broadcasts(STRIKES_A_SEED),
        work=Work(steps=100, are_weights_broadcast=True),
    ),
    Case(
        name="inference",
        what=f"{STRIKES_A_SEED} kills at random moments, inference workers among those killed",
        inject=fault_injection.kills(STRIKES_A_SEED),
        work=Work(steps=100, layout=Layout.REFERENCE_APART),
    ),
    Case(
        name="critic",
        what=f"{STRIKES_A_SEED} kills at random moments, those that train a critic "
        "apart from its policy among those killed",
        inject=fault_injection.kills(STRIKES_A_SEED),
        work=Work(steps=100, layout=Layout.CRITIC_APART),
    ),
    Case(
        name="shared",
        what=f"{STRIKES_A_SEED} kills at random moments, of pods that train and "
        "generate on the same GPU",
        inject=fault_injection.kills(STRIKES_A_SEED),
        work=Work(steps=100, layout=Layout.SHARED),
    ),
    Case(
        name="points",
        what="each process dies at every named point",
        inject=fault_injection.points,
        work=Work(steps=60),
    ),
    Case(
        name="last-step",
        what="deaths between the last commit and the end",
        inject=fault_injection.at_the_end,
        work=Work(steps=3),
    ),
    Case(
        name="streams",
        what="connections cut and slow, calls repeated, answers lost, weights damaged",
        inject=fault_injection.bad_streams,
        work=Work(steps=40),
    ),
    Case(
        name="full-disk",
        what="the disk of the checkpoints is full",
        inject=fault_injection.full_disk,
        work=Work(steps=12),
    ),
    Case(
        name="damage",
        what="newest checkpoint and journal damaged and cut short",
        inject=fault_injection.damage,
        work=Work(steps=24),
    ),
)
