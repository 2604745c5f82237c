"""Predict every published row, calibrate on half of them, write the page and its picture."""

from bench.planner.measured.calibration import Parameters, calibrates, fitted, halves
from bench.planner.measured.case import Row, StepTime
from bench.planner.measured.page import Answer, draw, lines, what_ifs
from bench.planner.measured.prediction import played, predicted
from bench.planner.measured.rows import ROWS
from bench.planner.records import RESULTS


def main() -> None:
    """Take some minutes of one core, most of them for the fit."""
    shipped = Parameters()
    calibrating, _ = halves(ROWS)
    found = fitted(
        lambda tried: [predicted(row.measured, tried) for row in calibrating],
        [row.published for row in calibrating],
        start=shipped,
    )
    answers = [_answer(number, row, shipped, found) for number, row in enumerate(ROWS, start=1)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    draw(answers, RESULTS / "measured.png")
    page = "\n".join(lines(answers, shipped, found, what_ifs(shipped, found))) + "\n"
    (RESULTS / "measured.md").write_text(page)
    print(page)


def _answer(number: int, row: Row, shipped: Parameters, found: Parameters) -> Answer:
    plays = None
    match row.measured:
        case StepTime(run=run, is_played=False):
            plays = played(run, found)
    return Answer(
        number=number,
        row=row,
        calibrates=calibrates(number),
        shipped=predicted(row.measured, shipped),
        fitted=predicted(row.measured, found),
        played=plays,
    )


if __name__ == "__main__":
    main()
