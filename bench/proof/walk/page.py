"""The page of a walk: each command with its time, and the curve that it ended with."""

from collections.abc import Sequence

from bench.proof.commit import commit, machine
from bench.proof.walk.shell import Typed


def page(typed: Sequence[Typed], *, first_step_seconds: float | None, picture: str) -> str:
    """Return it as Markdown.

    Raises:
        ValueError: no step was seen.
    """
    steps = [line for each in typed for line in each.lines if line.startswith("step ")]
    if not steps or first_step_seconds is None:
        raise ValueError("the job made no step that was seen")
    rows = "\n".join(f"| `{_escaped(each.command)}` | {each.seconds:.1f} |" for each in typed)
    return f"""# From no cluster to a learning curve

`make proof-walk` at {commit()} on {machine()} types the commands of the
[quick start](../quick-start.md) into one shell, as they stand there. Programs and base images were
in the cache; without it, `make images` and `make cluster` take minutes more.

| command | seconds |
|---|---|
{rows}

From `hetrl submit` until the job's status had a trained step: {first_step_seconds:.1f} s. The
first step that was printed, and the last:

```
{steps[0]}
{steps[-1]}
```

![What the browser showed once the job had succeeded]({picture})
"""


def _escaped(command: str) -> str:
    return command.replace("|", "\\|")
