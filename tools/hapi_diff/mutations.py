"""Single changes of the official examples, of the kinds that people and programs make, to test `$validate`.

The same seed gives the same changes. Some leave a resource valid (an optional element is removed, a text differs),
others do not (a list instead of one value, an unknown code). HAPI decides which.
"""

from __future__ import annotations

import copy
import json
import lzma
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.hapi_diff.servers import DATA

Json = Any
Place = tuple[Any, str]
"""An object and one of its keys."""
REFUSED = DATA.with_name("refused_examples.ndjson.xz")
DATES = ("2023-13-45", "2023/01/02", "13.11.2023", "2023-11-13T10:15", "yesterday", "2023-11", "2023-11-13")


def examples(path: Path) -> list[str]:
    """The official examples as texts, in the order of the recording: as HAPI stored them, or the files it refused."""
    refused = {}
    for text in lzma.decompress(REFUSED.read_bytes()).decode("utf-8").splitlines():
        resource = json.loads(text)
        refused[resource["resourceType"], resource["id"]] = text
    lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return [
        line["body"] if line["status"] == 200 else refused[line["type"], line["id"]]
        for line in lines
        if "status" in line
    ]


def mutated(texts: list[str], count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """`count` changed examples: a description of the change, and the text."""
    chance = random.Random(seed)
    made = 0
    while made < count:
        resource = json.loads(chance.choice(texts))
        places = list(_places(resource))
        change = chance.choice(CHANGES)
        description = change(chance, places)
        if description:
            made += 1
            name = f"{resource.get('resourceType')}/{resource.get('id')}"
            yield f"{name}: {description}", json.dumps(resource, ensure_ascii=False)


def _places(value: Json) -> Iterator[Place]:
    """Every key of every object, in order, except those that identify the resource."""
    if isinstance(value, list):
        for child in value:
            yield from _places(child)
    elif isinstance(value, dict):
        for key, child in value.items():
            if key not in ("resourceType", "id", "div") and key != "meta":
                yield value, key
                yield from _places(child)


def _pick(chance: random.Random, places: list[Place], matches: Callable[[Json, str], bool]) -> Place | None:
    candidates = [(owner, key) for owner, key in places if matches(owner[key], key)]
    return chance.choice(candidates) if candidates else None


def _drop(chance: random.Random, places: list[Place]) -> str:
    owner, key = chance.choice(places)
    del owner[key]
    return f"{key} dropped"


def _rename(chance: random.Random, places: list[Place]) -> str:
    owner, key = chance.choice(places)
    new = chance.choice((key[:-1] or "x", key + "s", key.lower() if key.lower() != key else key + "_", "un" + key))
    owner[new] = owner.pop(key)
    return f"{key} named {new}"


def _add(chance: random.Random, places: list[Place]) -> str:
    owner, _ = chance.choice(places)
    key = chance.choice(("comment", "description", "text", "status", "code", "value", "nope"))
    if key in owner:
        return ""
    owner[key] = "x"
    return f"{key} added"


def _list(chance: random.Random, places: list[Place]) -> str:
    owner, key = chance.choice(places)
    owner[key] = owner[key][0] if isinstance(owner[key], list) and owner[key] else [owner[key]]
    return f"{key} as {'a list' if isinstance(owner[key], list) else 'one'}"


def _repeat(chance: random.Random, places: list[Place]) -> str:
    place = _pick(chance, places, lambda value, key: isinstance(value, list) and bool(value))
    if place is None:
        return ""
    owner, key = place
    owner[key].append(copy.deepcopy(owner[key][0]))
    return f"{key}[0] repeated"


def _kind(chance: random.Random, places: list[Place]) -> str:
    place = _pick(chance, places, lambda value, key: isinstance(value, (str, bool, int, float)))
    if place is None:
        return ""
    owner, key = place
    owner[key] = chance.choice((5, True, "x", {"value": "x"}, None, "", 1.5))
    return f"{key} is {json.dumps(owner[key])}"


def _empty(chance: random.Random, places: list[Place]) -> str:
    place = _pick(chance, places, lambda value, key: isinstance(value, (list, dict)))
    if place is None:
        return ""
    owner, key = place
    owner[key] = type(owner[key])()
    return f"{key} is {json.dumps(owner[key])}"


def _code(chance: random.Random, places: list[Place]) -> str:
    place = _pick(chance, places, lambda value, key: isinstance(value, str) and key in _CODES)
    if place is None:
        return ""
    owner, key = place
    owner[key] = chance.choice(("nope", "active", "final", owner[key].upper(), owner[key] + " "))
    return f"{key} is {owner[key]!r}"


_CODES = ("status", "code", "use", "type", "intent", "priority", "gender", "system", "kind", "mode", "unit", "severity")


def _date(chance: random.Random, places: list[Place]) -> str:
    place = _pick(
        chance, places, lambda value, key: isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-"
    )
    if place is None:
        return ""
    owner, key = place
    owner[key] = chance.choice(DATES)
    return f"{key} is {owner[key]!r}"


def _reference(chance: random.Random, places: list[Place]) -> str:
    place = _pick(chance, places, lambda value, key: isinstance(value, str) and key == "reference")
    if place is None:
        return ""
    owner, key = place
    owner[key] = chance.choice(("Patient/x", "Observation/x", "Nope/x", "x", "#nope", "http://example.org/x", "urn:x"))
    return f"{key} is {owner[key]!r}"


def _text(chance: random.Random, places: list[Place]) -> str:
    place = _pick(chance, places, lambda value, key: isinstance(value, str) and " " in value)
    if place is None:
        return ""
    owner, key = place
    owner[key] = chance.choice(("another text", owner[key] + ".", owner[key].replace(" ", "\n", 1)))
    return f"{key} reads otherwise"


CHANGES = (_drop, _drop, _rename, _add, _list, _repeat, _kind, _empty, _code, _code, _date, _reference, _text, _text)
