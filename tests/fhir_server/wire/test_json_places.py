"""Where the values of a JSON text end."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fhir_server.operations._validate import Path, ends

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def paths(value: Any, path: Path = ()) -> set[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path}.union(*(paths(inner, (*path, key)) for key, inner in items))


@given(value=VALUES, indent=st.sampled_from((None, 0, 3)))
def test_every_value_has_its_place(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    found = ends(text)
    assert set(found) == paths(value)
    lines = text.split("\n")
    assert found[()] == (len(lines), len(lines[-1]) + 1)
    assert all(1 <= line <= len(lines) and 1 < column <= len(lines[line - 1]) + 1 for line, column in found.values())
