"""The page about answers judged on a quiet and on a busy machine."""

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.proof.rewards.answers import Answer
from bench.proof.rewards.judging import Judged
from hetrl_runtime.reward.scoring import JUDGE_CPU_SECONDS

MOST_CPU_SECONDS = JUDGE_CPU_SECONDS / 3
MOST_JUDGED_ELSE = 0.001
_MOST_LISTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Answers, and what each was worth on a quiet and on a busy machine."""

    answers: tuple[Answer, ...]
    quiet: tuple[Judged, ...]
    busy: tuple[Judged, ...]

    @property
    def changed(self) -> tuple[Answer, ...]:
        """Answers with one reward on the quiet machine and another on the busy one."""
        return tuple(
            answer
            for answer, one, other in self._pairs()
            if one.is_judged and other.is_judged and one.verdict != other.verdict
        )

    @property
    def judged_once(self) -> tuple[Answer, ...]:
        """Answers with a reward on one of the two machines only."""
        return tuple(
            answer for answer, one, other in self._pairs() if one.is_judged is not other.is_judged
        )

    @property
    def surprising(self) -> tuple[Answer, ...]:
        """Answers that are not worth what they were made to be worth."""
        return tuple(
            answer for answer, one, _ in self._pairs() if one.verdict != float(answer.is_right)
        )

    @property
    def most_cpu_seconds(self) -> float:
        """The most processor time that an answer with a reward took."""
        return max(each.cpu_seconds for each in (*self.quiet, *self.busy) if each.is_judged)

    @property
    def holds(self) -> bool:
        """Whether rewards do not depend on the machine's load, and are far from their limit."""
        return (
            not self.changed
            and len(self.judged_once) <= MOST_JUDGED_ELSE * len(self.answers)
            and self.most_cpu_seconds <= MOST_CPU_SECONDS
        )

    def _pairs(self) -> Iterator[tuple[Answer, Judged, Judged]]:
        return zip(self.answers, self.quiet, self.busy, strict=True)


def page(found: Found, *, commit: str, load: float, num_loops: int) -> str:
    """Write down what was found."""
    num_gsm8k = sum(each.form == "GSM8K" for each in found.answers)
    share = len(found.judged_once) / len(found.answers)
    lines = [
        "# Do rewards depend on how busy a machine is?",
        "",
        f"`make proof-rewards DATA=...` at commit {commit}: {len(found.answers) - num_gsm8k} "
        "answers in the forms of MATH, made from a seed (`bench/proof/rewards/answers.py`), and "
        f"a response to each of {num_gsm8k:,} problems of GSM8K. Half of them are right. The "
        "verifier `math` judged them twice, in the pool of processes that rollout workers use: on "
        f"the machine as it was, and with {num_loops} more processes that computed all the time.",
        "",
        f"{_cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}. The machine was "
        f"not idle: it had a load of {load:.1f} from other work when this began. The limit counts "
        "processor time, which waiting does not use up.",
        "",
        "| what | must be | found |",
        "|---|---|---|",
        f"| 1 on one of the two, 0 on the other | 0 | {len(found.changed)} |",
        f"| judged on one of the two only | at most {MOST_JUDGED_ELSE:.1%} | {share:.2%} |",
        f"| most processor time of an answer that was judged | at most "
        f"{MOST_CPU_SECONDS:.2f} s, a third of the limit | {found.most_cpu_seconds:.3f} s |",
        f"| worth what they were made to be worth | | "
        f"{len(found.answers) - len(found.surprising):,} of {len(found.answers):,} |",
        "",
        "Processor time by form, in milliseconds:",
        "",
        "| form | answers | as made | median, quiet | most, quiet | median, busy | most, busy |",
        "|---|---|---|---|---|---|---|",
        *(_row(found, form) for form in dict.fromkeys(each.form for each in found.answers)),
    ]
    for title, answers in (
        ("Changed", found.changed),
        ("Judged once", found.judged_once),
        ("Not worth what they were made to be worth", found.surprising),
    ):
        if answers:
            lines += ["", f"{title}:", "", *map(_item, answers[:_MOST_LISTED])]
    return "\n".join(lines) + "\n"


def _row(found: Found, form: str) -> str:
    places = [place for place, each in enumerate(found.answers) if each.form == form]
    surprising = sum(each.form == form for each in found.surprising)
    times = [_times(judged, places) for judged in (found.quiet, found.busy)]
    figures = " | ".join(f"{statistics.median(each):.1f} | {max(each):.1f}" for each in times)
    name = form.replace("_", " ")
    return f"| {name} | {len(places):,} | {len(places) - surprising:,} | {figures} |"


def _times(judged: Sequence[Judged], places: Sequence[int]) -> list[float]:
    return [judged[place].cpu_seconds * 1e3 for place in places]


def _item(answer: Answer) -> str:
    said = ascii(answer.response)[1:-1].replace("`", "'")
    return f"- `{said[-80:]}` for `{answer.reference[-60:]!r}`, {answer.form}"


def _cpu() -> str:
    """Return the name of the processor, where the kernel knows it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()
