"""History of a run by its journal: what was trained on, and violations of invariants.

Pure: entries come in with their times. A new epoch takes back every version above the one that
its trainer came back with; what was consumed by these may be trained on again, once.
"""

from collections import Counter
from dataclasses import dataclass, field

from hetrl_core.staleness import staleness
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import SampledTrajectory, TrajectoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One commit: what was trained on to make a version."""

    number: int
    epoch: int
    at_seconds: float
    consumed: tuple[TrajectoryId, ...]
    staleness: tuple[int, ...]
    """Of each, by the tokens that the journal has."""

    reward_mean: float


@dataclass(slots=True, kw_only=True)
class Story:
    """The surviving history so far, and everything in it that must not be."""

    batch_size: int
    max_staleness: int
    journal_is_whole: bool = True
    """Whether it is undamaged: else a commit may be lost that no process had seen yet."""

    versions: list[Version] = field(default_factory=list)
    """Of the surviving history, from 1 on."""

    epoch: int = 0
    num_commits: int = 0
    """Lost ones included."""

    lost_steps: list[int] = field(default_factory=list)
    """Versions taken back, for each epoch that took any."""

    ending: str = ""
    violations: list[str] = field(default_factory=list)
    _trainer_instance: str = ""
    _accepted: dict[TrajectoryId, SampledTrajectory] = field(default_factory=dict)
    _made: tuple[Version, ...] = ()
    """Versions that a trainer made and still has, though its coordinator forgot them."""

    @property
    def version(self) -> int:
        """The newest version that survives."""
        return len(self.versions)

    def take(self, entry: pb.JournalEntry, *, at_seconds: float) -> None:
        """Take an entry in."""
        match entry.WhichOneof("entry"):
            case "epoch_begun":
                self._begin(entry.epoch_begun)
            case "accepted":
                found = codec.decode_trajectory(entry.accepted)
                if isinstance(found, SampledTrajectory):
                    self._accepted[found.id] = found
            case "committed":
                self._commit(entry.committed, at_seconds)
            case "ended":
                self.ending = entry.ended.reason

    def finish(self, *, steps: int, group_size: int) -> None:
        """Check the whole: nothing trained twice, no version missing, no prompt skipped."""
        if self.version != steps:
            self.violations.append(f"the history ends at version {self.version} of {steps}")
        times = Counter(each for version in self.versions for each in version.consumed)
        self.violations += [
            f"{identity} was trained on {count} times"
            for identity, count in times.items()
            if count > 1
        ]
        groups = {identity.group for identity in times}
        passed_over = set(range(max(groups, default=-1) + 1)) - groups
        most = (self.max_staleness + 1) * self.batch_size // group_size
        if len(passed_over) > most:
            self.violations.append(
                f"{len(passed_over)} prompts were passed over, first {min(passed_over)}: no more "
                f"than {most} can be under way at the end"
            )

    def _begin(self, begun: pb.EpochBegun) -> None:
        if begun.epoch < self.epoch:
            self.violations.append(f"epoch {begun.epoch} after epoch {self.epoch}")
        lost = self.version - begun.resume.version
        lived = begun.trainer_instance == self._trainer_instance
        if lost > 0 and lived and self.journal_is_whole:
            self.violations.append(f"{lost} versions were taken back, though their trainer lived")
        self._trainer_instance = begun.trainer_instance
        if lost > 0 or not lived:
            self._made = tuple(self.versions[begun.resume.version :]) if lived else ()
        if lost < 0:
            self.violations.append(
                f"epoch {begun.epoch} begins at version {begun.resume.version}, which nothing made"
            )
        # A rewritten journal has the same epoch again, at its newest version.
        if lost > 0:
            self.lost_steps.append(lost)
            del self.versions[begun.resume.version :]
        self.epoch = begun.epoch

    def _commit(self, committed: pb.VersionCommitted, at_seconds: float) -> None:
        consumed = codec.decode_ids(committed.consumed)
        newest = self.versions[-1] if self.versions else None
        if newest and (newest.number, newest.consumed) == (committed.version, consumed):
            # No process had seen it when the journal lost it, and the trainer sent it again.
            return
        self.num_commits += 1
        if committed.version != self.version + 1:
            self.violations.append(f"version {committed.version} follows version {self.version}")
            return
        for made in self._made:
            # The coordinator may have other trajectories by these names now, sampled since: the
            # trainer trained on what it was handed, which was checked at its first commit.
            if (made.number, made.consumed) == (committed.version, consumed):
                self.versions.append(made)
                return
        known = [self._accepted[each] for each in consumed if each in self._accepted]
        if len(known) != len(consumed):
            self.violations.append(
                f"version {committed.version} was trained on what was never accepted"
            )
        if len(consumed) + len(committed.discarded) != self.batch_size:
            self.violations.append(
                f"version {committed.version} had {len(consumed)} trajectories and "
                f"{len(committed.discarded)} refused, not {self.batch_size}"
            )
        ages = tuple(self._age(each, trained=committed.version - 1) for each in known)
        self.versions.append(
            Version(
                number=committed.version,
                epoch=self.epoch,
                at_seconds=at_seconds,
                consumed=consumed,
                staleness=ages,
                reward_mean=sum(each.reward for each in known) / max(1, len(known)),
            )
        )

    def _age(self, trajectory: SampledTrajectory, *, trained: int) -> int:
        try:
            age = staleness(trajectory.sampled_versions.tolist(), version=trained)
        except ValueError as error:
            self.violations.append(f"{trajectory.id}: {error}")
            return 0
        if age > self.max_staleness:
            self.violations.append(
                f"{trajectory.id} was {age} versions old at version {trained}, "
                f"the bound is {self.max_staleness}"
            )
        return age
