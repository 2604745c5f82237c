"""The files that a path or a pattern names."""

import glob
from pathlib import Path


def shards(where: Path) -> list[Path]:
    """Return the files that a pattern matches, in the order of their names; else the path itself.

    ``*`` stands for any characters of a name, ``**`` for any folders. Other characters, brackets
    among them, stand for themselves.
    """
    if "*" not in str(where):
        return [where]
    pattern = glob.escape(str(where)).replace("[*]", "*")
    found = glob.iglob(pattern, recursive=True)  # noqa: PTH207  # brackets stand for themselves
    return sorted(Path(each) for each in found if Path(each).is_file())
