"""Lists whose entries have names: merged by key on the server, and no key twice."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, PydanticKnownError, core_schema

DUPLICATE = "duplicate_entry"
"""pydantic's type of the error; its context has ``index`` and ``key``."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """Annotates a tuple of models: at most ``most`` entries, unique by ``keys``."""

    keys: tuple[str, ...]
    """Aliases of the fields that name an entry."""

    most: int

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Check what the API server checks of a list map."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Say it to the API server."""
        return {
            **handler(schema),
            "maxItems": self.most,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(self.keys),
        }

    def _checked(self, entries: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(entries) > self.most:
            lengths = {"max_length": self.most, "actual_length": len(entries)}
            raise PydanticKnownError("too_long", {"field_type": "List", **lengths})
        seen: set[tuple[object, ...]] = set()
        for index, entry in enumerate(entries):
            fields = entry.model_dump(by_alias=True)
            key = tuple(fields[name] for name in self.keys)
            if key in seen:
                said = ", ".join(str(part) for part in key)
                raise PydanticCustomError(
                    DUPLICATE, "entry {index} repeats {key}", {"index": index, "key": said}
                )
            seen.add(key)
        return entries
