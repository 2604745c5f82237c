"""Which commit a proof ran at, and on what: for the record and the page of every proof."""

import os
import platform
import subprocess


def commit() -> str:
    """Return the commit, and whether the working tree differs from it."""
    said = [
        subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout
        for arguments in (
            ["rev-parse", "--short=12", "HEAD"],
            # The page that is being written is no change of what it reports on.
            ["status", "--porcelain", "-uno", ":!docs/results"],
        )
    ]
    return said[0].strip() + (" and uncommitted changes" if said[1].strip() else "")


def machine() -> str:
    """Say what a proof ran on."""
    return f"{os.cpu_count()} CPU cores, Python {platform.python_version()}"
