"""The cases of the proof: a run each, what befalls it, and what must be so in spite of it."""

from dataclasses import dataclass

from bench.proof.kill import mishaps
from bench.proof.kill.arrangement import Layout, Work
from bench.proof.kill.mishaps import Befalls

STRIKES_A_SEED = 42
SEEDS = (1, 2, 3, 4, 5)
_WORK = Work(steps=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run and what befalls it."""

    name: str
    what: str
    """In words, for the page."""

    befalls: Befalls
    seed: int = 1
    work: Work = _WORK

    @property
    def title(self) -> str:
        """What its folder is called."""
        return f"{self.name}-{self.seed}"


CASES = (
    Case(name="untouched", what="nothing befalls it", befalls=mishaps.nothing),
    *(
        Case(
            name="kills",
            what=f"{STRIKES_A_SEED} kills at random moments",
            seed=seed,
            befalls=mishaps.kills(STRIKES_A_SEED),
        )
        for seed in SEEDS
    ),
    Case(
        name="broadcast",
        what=f"{STRIKES_A_SEED} kills at random moments while weights are broadcast",
        befalls=mishaps.kills_amid_broadcasts(STRIKES_A_SEED),
        work=Work(steps=100, are_weights_broadcast=True),
    ),
    Case(
        name="inference",
        what=f"{STRIKES_A_SEED} kills at random moments, inference workers among those killed",
        befalls=mishaps.kills(STRIKES_A_SEED),
        work=Work(steps=100, layout=Layout.REFERENCE_APART),
    ),
    Case(
        name="critic",
        what=f"{STRIKES_A_SEED} kills at random moments, those that train a critic "
        "apart from its policy among those killed",
        befalls=mishaps.kills(STRIKES_A_SEED),
        work=Work(steps=100, layout=Layout.CRITIC_APART),
    ),
    Case(
        name="shared",
        what=f"{STRIKES_A_SEED} kills at random moments, of pods that train and "
        "generate on the same GPU",
        befalls=mishaps.kills(STRIKES_A_SEED),
        work=Work(steps=100, layout=Layout.SHARED),
    ),
    Case(
        name="points",
        what="each process dies at every named point",
        befalls=mishaps.points,
        work=Work(steps=60),
    ),
    Case(
        name="last-step",
        what="deaths between the last commit and the end",
        befalls=mishaps.at_the_end,
        work=Work(steps=3),
    ),
    Case(
        name="streams",
        what="connections cut and slow, calls repeated, answers lost, weights damaged",
        befalls=mishaps.bad_streams,
        work=Work(steps=40),
    ),
    Case(
        name="full-disk",
        what="the disk of the checkpoints is full",
        befalls=mishaps.full_disk,
        work=Work(steps=12),
    ),
    Case(
        name="damage",
        what="newest checkpoint and journal damaged and cut short",
        befalls=mishaps.damage,
        work=Work(steps=24),
    ),
)
