"""Check that a trainer resumes from the weights that its history produced.

Pure. The journal knows what was trained on; only the weights know what they have learned. A trainer
logs the digest of each version that it publishes, and its first is of the checkpoint that it came
back with: it must equal the digest of that version on the history that survives.
"""

import re
from collections.abc import Iterable

_PUBLISHED = re.compile(r"weights published: version=(\d+) sha256=([0-9a-f]{64})")


def violations(log: Iterable[str]) -> list[str]:
    """Read a trainer's log, all its starts in one; return what is wrong."""
    digests: dict[int, str] = {}
    found = []
    for match in filter(None, map(_PUBLISHED.search, log)):
        version, digest = int(match[1]), match[2]
        if version in digests and digests[version] != digest:
            found.append(f"a trainer came back to version {version} with other weights than it had")
        if version not in digests and version and version - 1 not in digests:
            found.append(f"version {version} was published, but not the one before it")
        digests = {number: each for number, each in digests.items() if number < version}
        digests[version] = digest
    return found
