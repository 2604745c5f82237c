"""Objects that an earlier release accepted: this one accepts them too."""

import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetrl_api.fleet.topology import HetRLTopology
from hetrl_api.job.job import HetRLJob
from hetrl_api.load import parse
from hetrl_api.plan.plan import HetRLPlan
from hetrl_api.validation.documents import documents

ROOT = Path(__file__).parents[2]
RELEASES = sorted((ROOT / "tests/fixtures").glob("v*"))
CRDS = ROOT / "crds"
KINDS = {"HetRLJob": HetRLJob, "HetRLPlan": HetRLPlan, "HetRLTopology": HetRLTopology}
Schema = Mapping[str, Any]

# What the old bound allows, the new one must: True for (old, new) where it does.
BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda old, new: new <= old,
    "minLength": lambda old, new: new <= old,
    "minItems": lambda old, new: new <= old,
    "minProperties": lambda old, new: new <= old,
    "maximum": lambda old, new: new >= old,
    "maxLength": lambda old, new: new >= old,
    "maxItems": lambda old, new: new >= old,
    "maxProperties": lambda old, new: new >= old,
    "enum": lambda old, new: set(old) <= set(new),
    "required": lambda old, new: set(new) <= set(old),
    "exclusiveMinimum": lambda old, new: new <= old,
    "exclusiveMaximum": lambda old, new: new <= old,
}
KEPT = ("type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string")
SAME = ("type", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")


def narrowed(old: Schema, new: Schema, at: str = "") -> Iterator[str]:
    """Yield where the new schema refuses, or drops, what the old one took."""
    here = at or "the object"
    is_listed = "enum" in old and "enum" not in new
    for name in (*BOUNDS, *SAME):
        if is_listed and all(_takes(name, new.get(name), each) for each in old["enum"]):
            continue
        if name in new and not _allows(name, old.get(name), new[name]):
            yield f"{here}: {name} was {old.get(name)}, is {new[name]}"
    yield from (f"{here}: {name} was {old[name]}" for name in KEPT if name in old.keys() - new)
    for path, before, now in _parts(old, new, at):
        yield from [f"{path} is gone"] if now is None else narrowed(before, now, path)


def _parts(old: Schema, new: Schema, at: str) -> Iterator[tuple[str, Schema, Schema | None]]:
    for name, field in old.get("properties", {}).items():
        yield f"{at}.{name}".removeprefix("."), field, new.get("properties", {}).get(name)
    for name in ("items", "additionalProperties"):
        if isinstance(old.get(name), Mapping):
            yield f"{at}[]", old[name], new.get(name)


def _takes(name: str, limit: Any, value: str) -> bool:
    """Tell whether what limits text takes a value that was on the old schema's list."""
    match name:
        case "pattern":
            return limit is None or re.search(limit, value) is not None
        case "maxLength":
            return limit is None or len(value) <= limit
        case _:
            return False


def _allows(name: str, old: Any, new: Any) -> bool:
    if name in SAME:
        return bool(old == new)
    if old is None:
        return name == "required" and not new
    return BOUNDS[name](old, new)


def schemas(path: Path) -> dict[str, Schema]:
    """Return a CRD's schemas by version."""
    crd = yaml.safe_load(path.read_text())
    return {
        each["name"]: each["schema"]["openAPIV3Schema"]
        for each in crd["spec"]["versions"]
        if each["served"]
    }


def released(pattern: str) -> list[Any]:
    return [
        pytest.param(path, id=f"{release.name}-{path.stem}")
        for release in RELEASES
        for path in sorted(release.glob(pattern))
    ]


def objects() -> Iterator[Any]:
    for release in RELEASES:
        for number, each in enumerate(documents((release / "objects.yaml").read_text())):
            name = f"{release.name}-{number}-{each['kind']}-{each['metadata']['name']}"
            yield pytest.param(each, id=name)


@pytest.mark.parametrize("path", released("crds/*.yaml"))
def test_released_fields_are_neither_gone_nor_narrower(path: Path) -> None:
    before, now = schemas(path), schemas(CRDS / path.name)

    for version, schema in before.items():
        assert version in now, f"{version} is not served any more"
        assert list(narrowed(schema, now[version])) == []


@pytest.mark.parametrize("made", list(objects()))
def test_object_that_a_release_accepted_is_still_valid(made: dict[str, Any]) -> None:
    kind: Any = KINDS[made["kind"]]

    assert parse(kind, made).metadata.name == made["metadata"]["name"]


@pytest.mark.parametrize("path", released("*.tgz"))
def test_packaged_chart_brings_the_crds_of_its_release(path: Path) -> None:
    with tarfile.open(path) as chart:
        texts = {
            Path(member.name).name: chart.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in chart.getmembers()
            if "/crds/" in member.name
        }

    shipped = {each.name: each.read_text() for each in (path.parent / "crds").iterdir()}
    assert texts.keys() == shipped.keys()
    for name, text in shipped.items():
        # The chart's copy differs from the API's only in being a template.
        kept = [line for line in texts[name].splitlines() if "{{" not in line]
        assert set(text.splitlines()) <= set(kept)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            {"properties": {"a": {"type": "string"}}}, {"properties": {}}, "a is gone", id="field"
        ),
        pytest.param({"maximum": 9}, {"maximum": 8}, "maximum was 9, is 8", id="bound"),
        pytest.param({}, {"pattern": "^a"}, "pattern was None, is ^a", id="new pattern"),
        pytest.param({"enum": ["A", "B"]}, {"enum": ["A"]}, "enum was", id="choice"),
        pytest.param({}, {"required": ["a"]}, "required was None", id="required"),
        pytest.param(
            {"items": {"properties": {"a": {"type": "string"}}}},
            {"items": {"properties": {"a": {"type": "integer"}}}},
            "[].a: type was string",
            id="type",
        ),
    ],
)
def test_refusal_of_an_old_object_is_found(old: Schema, new: Schema, said: str) -> None:
    (found,) = narrowed(old, new)

    assert said in found
