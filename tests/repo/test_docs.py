"""Documentation that must keep up with the code."""

import re
from pathlib import Path

from hetrl_cli.main import OWN_COMMANDS
from hetrl_operator.model.reasons import Reason

DOCS = Path(__file__).parents[2] / "docs"


def test_troubleshooting_knows_every_reason() -> None:
    documented = set(
        re.findall(r"`(\w+)`", (DOCS / "operations" / "troubleshooting.md").read_text())
    )
    reasons = {value for name, value in vars(Reason).items() if name.isupper()}
    assert reasons <= documented


def test_command_line_page_lists_every_command() -> None:
    documented = set(re.findall(r"`hetrl ([a-z-]+)", (DOCS / "command-line.md").read_text()))
    assert set(OWN_COMMANDS) <= documented
