"""The sample of groups that are traced, drawn by their ids.

All trajectories of a group or none, since a step waits for whole groups; and the same groups after
every restart, so that a trace can be compared with the one before.
"""

from hashlib import blake2b

_BYTES = 8
_NUM_DRAWS: int = 1 << 8 * _BYTES


def is_traced(job_uid: str, group: int, *, ratio: float) -> bool:
    """Tell whether a group is among the traced ``ratio`` of a run's."""
    drawn = blake2b(f"{job_uid}/{group}".encode(), digest_size=_BYTES).digest()
    return int.from_bytes(drawn) < ratio * _NUM_DRAWS
