"""Commands that the documentation contains, and the output that it shows for them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "e2e" / "cluster" / "README.md",
    *sorted((ROOT / "examples").glob("*.yaml")),
)
_PROGRAMS = {"make", "hetrl", "helm", "kubectl", "docker", "sed", "eval", "python"}
_ENDS = {";", "&", "&&", "|", "||"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedCommand:
    """One command of a page."""

    page: Path
    words: tuple[str, ...]
    prints: str = ""
    """What the page shows below it; empty where it shows nothing."""

    def __str__(self) -> str:
        """Return page and command, for the names of tests."""
        return f"{self.page.relative_to(ROOT)}: {shlex.join(self.words)}"


def documented(program: str) -> list[DocumentedCommand]:
    """Return the commands of a program on all pages, each once."""
    found = {(each.words, each.prints): each for page in PAGES for each in _commands(page)}
    return [each for each in found.values() if each.words[0] == program]


def _commands(page: Path) -> Iterator[DocumentedCommand]:
    for block in _blocks(page):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        if any(line.startswith("$ ") for line in lines):
            for typed in re.split(r"^\$ ", "\n".join(lines), flags=re.MULTILINE)[1:]:
                line, _, prints = typed.partition("\n")
                yield from (
                    DocumentedCommand(page=page, words=each, prints=prints) for each in _split(line)
                )
        elif lines and _program(lines[0].split()) in _PROGRAMS:
            for line in lines:
                yield from (DocumentedCommand(page=page, words=each) for each in _split(line))


def _blocks(page: Path) -> Iterator[str]:
    text = page.read_text()
    if page.suffix == ".yaml":
        # Each line of the opening comment that is set in by two blanks.
        head = re.match(r"(#.*\n)*", text)
        yield from re.findall(r"^#  +(.*)$", head[0] if head else "", flags=re.MULTILINE)
        return
    for indent, block in re.findall(r"^( *)```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        yield re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)


def _split(line: str) -> Iterator[tuple[str, ...]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _ENDS:
            words.append(word)
            continue
        if _program(words) in _PROGRAMS:
            yield (_program(words), *words[1:])
        words = []


def _program(words: list[str]) -> str:
    return words[0].removeprefix(".venv/bin/") if words else ""
