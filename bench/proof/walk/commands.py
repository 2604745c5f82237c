"""The commands of a page: what a reader would copy out of it, one after the other."""

import re


def commands(page: str, heading: str) -> list[str]:
    """Return those of the section under a heading; lines that go on are one command.

    Raises:
        ValueError: the page has no such section, or it has no commands.
    """
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    section = next((each for each in sections if each.startswith(f"{heading}\n")), "")
    blocks = re.findall(r"^```\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    found = re.sub(r"\\\n\s*", "", "".join(blocks)).splitlines()
    if not found:
        raise ValueError(f"no commands under {heading!r}")
    return found
