"""``python -m hetrl_cli.dashboard.generate``: the chart's dashboards, written from the boards."""

from pathlib import Path

from hetrl_cli.dashboard.boards.all import BOARDS
from hetrl_cli.dashboard.grafana import as_json

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "charts" / "hetrl" / "dashboards"


def texts() -> dict[Path, str]:
    """Return every file and what it should hold."""
    return {FOLDER / f"{board.name}.json": as_json(board) for board in BOARDS}


def main() -> None:
    """Write the files."""
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
