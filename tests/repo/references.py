"""``python -m tests.repo.references``: pages of docs/ about metrics, values and known models.

Here and not in a package: operator and runtime never import each other, and the page of metrics
is about both.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from hetrl_cli.dashboard.boards.all import BOARDS
from hetrl_cli.dashboard.sources.promql import written
from hetrl_core.job.architecture import from_hugging_face
from hetrl_core.model.hub_models import HUB_MODELS
from tests.chart.exposed import PROCESSES, Family, families

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "hetrl"

_PROCESS_WORDS = {
    "operator": "Each replica, on port 8080. Series with `hetrljob` are one set a job and end with "
    "it; `hetrl run` shows those of its one job too.",
    "coordinator": "The coordinator's pod, on port `metrics`.",
    "trainer": "The first process of each trainer pod, on port `metrics`.",
    "rollout": "Each rollout pod, on port `metrics`; in a trainer's pod that generates as well, "
    "on port `metrics-rollout`.",
    "inference": "Each inference pod, on port `metrics`; in a pod that does other work as well, "
    "on port `metrics-scores`.",
}


def texts() -> dict[Path, str]:
    """Return every page and what it should hold."""
    return {
        ROOT / "docs" / "metrics.md": "\n".join(_metrics()) + "\n",
        ROOT / "docs" / "values.md": "\n".join(_values()) + "\n",
        ROOT / "docs" / "known-models.md": "\n".join(_known_models()) + "\n",
    }


def _known_models() -> Iterator[str]:
    yield from (
        "# Known models",
        "",
        "Written by `make crds` from `hetrl_core/model/hub_models.py`. A job that names one of "
        "these ids in `spec.model.source.hub` is planned without access to the hub, also where it "
        "states no `spec.model.architecture`: the dimensions are those of `config.json` at the "
        "commit here. "
        "What a [preflight](preflight.md) reads takes precedence.",
        "",
        "| hub id | family | parameters, 1e9 | commit |",
        "|---|---|---|---|",
    )
    for each in HUB_MODELS.values():
        parameters = from_hugging_face(each.config).num_parameters / 1e9
        family = each.config["model_type"]
        yield f"| `{each.id}` | `{family}` | {parameters:.3f} | `{each.commit}` |"


def _metrics() -> Iterator[str]:
    yield from (
        "# Metrics",
        "",
        "Written by `make crds` from the code that registers them. Units are in the names; "
        "counters end in `_total`, and a histogram has `_bucket`, `_sum` and `_count`.",
        "The chart's PodMonitors add `namespace` and `pod` to every series, and `hetrljob`, `role` "
        "and `pool` (the GPU kind) to those of jobs' pods.",
        "",
        "Series with `phase`, `type`, `outcome` and the like have one for each word of a fixed "
        "list. No label is a uid, a prompt or an address.",
    )
    drawn = _drawn()
    for process in PROCESSES:
        yield from ("", f"## {process.capitalize()}", "", _PROCESS_WORDS[process], "")
        yield from ("| metric | what it is | panel |", "|---|---|---|")
        yield from (_metric(each, drawn) for each in families() if each.process == process)


def _metric(family: Family, drawn: Mapping[str, str]) -> str:
    labels = ", ".join(f"`{each}`" for each in family.labels)
    kind = f"{family.kind} by {labels}" if labels else family.kind
    panel = next((drawn[each] for each in family.series if each in drawn), "-")
    return f"| `{family.name}`<br>{kind} | {family.means} | {panel} |"


def _drawn() -> dict[str, str]:
    """Return the first panel of every series."""
    found: dict[str, str] = {}
    for board in BOARDS:
        for panel in board.panels:
            for curve in panel.curves:
                query = promql_parser.parse(written(curve.expression, board.scope, window="1m"))
                for name in _names(query):
                    found.setdefault(name, f"{board.name.capitalize()}: {panel.title}")
    return found


def _names(query: promql_parser.Expr) -> set[str]:
    found: set[str] = set()

    def visit(each: promql_parser.Expr) -> promql_parser.Expr:
        if isinstance(each, promql_parser.VectorSelector):
            found.add(each.name)
        return each

    promql_parser.transform(query, visit)
    return found


def _values() -> Iterator[str]:
    yield from (
        "# Values of the chart",
        "",
        "Written by `make crds` from `charts/hetrl/values.yaml` and `values.schema.json`, which "
        "refuses a wrong value by name. Whole files to begin with are in `charts/hetrl/examples`.",
        "",
        "| value | default | may be | what it is |",
        "|---|---|---|---|",
    )
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    words = dict(said_of_values())
    for path, limits in leaves(schema):
        default = value_at(values, path)
        shown = json.dumps(default) if default != "" else '""'
        yield f"| `{'.'.join(path)}` | `{shown}` | {_may_be(limits)} | {words[path]} |"


def leaves(
    schema: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield every value that has no named parts, in the order of the schema."""
    for name, each in schema["properties"].items():
        if name == "global":
            continue  # Helm's own, for parents of this chart.
        # Requests and limits are Kubernetes' to name.
        if "properties" in each and (*path, name) != ("resources",):
            yield from leaves(each, (*path, name))
        else:
            yield (*path, name), each


def value_at(values: Any, path: tuple[str, ...]) -> Any:
    """Return a value of the chart."""
    for name in path:
        values = values[name]
    return values


def said_of_values() -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what values.yaml says above each value: ``# -- …``, and the comment's other lines."""
    path: list[tuple[int, str]] = []
    said: list[str] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            said = [text[5:]] if text.startswith("# -- ") else [*said, text[2:]]
        elif ":" in text:
            indent = len(line) - len(line.lstrip())
            path = [each for each in path if each[0] < indent]
            path.append((indent, text.partition(":")[0]))
            yield tuple(name for _, name in path), " ".join(said)
            said = []
        else:
            said = []


def _may_be(limits: Mapping[str, Any]) -> str:
    if "enum" in limits:
        return ", ".join(f"`{each}`" for each in limits["enum"])
    if "minimum" in limits or "maximum" in limits:
        bounds = (limits.get("minimum"), limits.get("maximum"))
        low, high = ("" if each is None else f"{each:,}" for each in bounds)
        return f"{low} to {high}" if high else f"{low} or more"
    if pattern := limits.get("pattern"):
        return f"text like `{pattern.replace('|', chr(92) + '|')}`"
    return {"boolean": "`true`, `false`", "string": "text", "array": "a list"}.get(
        limits.get("type", ""), "a map"
    )


def main() -> None:
    """Write the pages."""
    for path, text in texts().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
