"""The state difference of an episode: the resources that it created, changed or deleted, and how a person reads them.

Versions and times of the server do not count: a resource that ends as it began is not a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from refsol.json_values import as_object

NO_CHANGE = "no change"
"""What became of a resource that was to be changed, and was not."""
_SHOWN = 6
"""The most elements of one change that its text lists."""
_LONGEST = 60
"""The most characters of one value in a text."""
_TITLES = ("code", "medicationCodeableConcept", "vaccineCode", "type", "name")
"""The elements that say what a resource is about; the first one is shown."""


@dataclass(frozen=True, slots=True)
class Change:
    """One resource before and after an episode. `before` is None if it was created, `after` if it was deleted."""

    kind: Literal["created", "changed", "deleted"]
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """`MedicationRequest 123`."""
        resource = self.after or self.before or {}
        return f"{resource.get('resourceType')} {resource.get('id')}"

    @property
    def words(self) -> str:
        """What happened: `status active → stopped`, `created (final, Magnesium)`."""
        if self.before is None or self.after is None:
            about = ", ".join(_about(self.after or self.before or {}))
            return f"{self.kind} ({about})" if about else self.kind
        differences = [
            _difference(*difference) for difference in _differences(_content(self.before), _content(self.after))
        ]
        more = [f"and {len(differences) - _SHOWN} more"] if len(differences) > _SHOWN else []
        return ", ".join(differences[:_SHOWN] + more)


def change_of(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Change | None:
    """The change from one state of a resource to another (None: it does not exist); None if nothing has changed."""
    if before is None and after is None:
        return None
    if before is None:
        return Change("created", before, after)
    if after is None:
        return Change("deleted", before, after)
    return Change("changed", before, after) if _content(before) != _content(after) else None


def _content(resource: Mapping[str, Any]) -> dict[str, Any]:
    """A resource without what a server adds to each version."""
    meta = {key: value for key, value in as_object(resource.get("meta")).items() if key not in _OF_SERVER}
    return {**{key: value for key, value in resource.items() if key != "meta"}, **({"meta": meta} if meta else {})}


_OF_SERVER = ("versionId", "lastUpdated", "source")


def _differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The paths at which two JSON values differ, with both values (None: missing)."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from _differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _differences(old, new, f"{path}[{place}]" if len(before) > 1 else path)
    elif before != after:
        yield path, before, after


def _difference(path: str, before: Any, after: Any) -> str:
    if before is None:
        return f"{path} {_shown(after)} added"
    if after is None:
        return f"{path} {_shown(before)} removed"
    return f"{path} {_shown(before)} → {_shown(after)}"


def _about(resource: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(resource.get("status"), str):
        yield resource["status"]
    title = next((resource[name] for name in _TITLES if resource.get(name)), None)
    if title is not None:
        yield _shown(title)


def _shown(value: Any) -> str:
    """A value in a few words: the text of a concept, the number and unit of a quantity, the text of a name."""
    text = " ".join(_words(value)) or "(empty)"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for element in value:
            yield from _words(element)
    elif isinstance(value, dict):
        known = [value[key] for key in ("text", "display", "reference") if isinstance(value.get(key), str)]
        if known:
            yield known[0]
        elif "coding" in value:
            yield from _words(value["coding"][:1] if isinstance(value["coding"], list) else value["coding"])
        elif "code" in value and isinstance(value["code"], str) and "value" not in value:
            yield value["code"]
        else:
            for element in value.values():
                yield from _words(element)
    elif value is not None:
        yield str(value).lower() if isinstance(value, bool) else str(value)
