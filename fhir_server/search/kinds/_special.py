"""Special parameters: `near` with `latitude|longitude|distance|unit`. Like HAPI, searches the box around the circle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from fhir_server.errors import FhirError
from fhir_server.search._element_paths import ElementPath
from fhir_server.search.condition import Condition, Criterion, either, split
from fhir_server.search.kinds.kind import Extractor, IndexRows, Kind, SearchScope, TableRow, each
from fhir_server.search.parameters import SearchParameter
from fhir_server.wire.json_values import Json

Row: TypeAlias = tuple[str, float, float]
"""Parameter, latitude, longitude (degrees)."""

_EARTH_RADIUS = 6371.0
_KILOMETRES = {
    "km": 1.0,
    "m": 0.001,
    "mi": 1.609344,
    "mi_i": 1.609344,
    "[mi_i]": 1.609344,
    "mi_us": 1.609347,
    "[mi_us]": 1.609347,
    "ft": 0.0003048,
}


def _position(rows: IndexRows, name: str, value: Json) -> None:
    latitude, longitude = value.get("latitude"), value.get("longitude")
    if latitude is not None and longitude is not None:
        rows["special"].append((name, float(str(latitude)), float(str(longitude))))


def extractor(parameter: SearchParameter, path: ElementPath) -> Extractor | None:
    return each(parameter.name, _position) if path.keys[-1] == "position" else None


def table_rows(rows: list[Row], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    return [(numbers[name], row_id, latitude, longitude) for name, latitude, longitude in rows]


def conditions(scope: SearchScope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that the resource is near one of the positions."""
    parts: list[str] = []
    args: list[object] = [scope.number(parameter.name)]
    for value in criterion.values:
        try:
            latitude, longitude, *rest = split(value, "|")
            north, east = float(latitude), float(longitude)
            distance = float(rest[0]) if rest and rest[0] else 1.0
            if not all(map(math.isfinite, (north, east, distance))):
                raise ValueError(value)
        except ValueError:
            raise FhirError(
                400, f"HAPI-2229: Invalid position format '{value}'. Required format is 'latitude:longitude'"
            ) from None
        unit = rest[1] if len(rest) > 1 else "km"
        if unit not in _KILOMETRES:
            unknown = f"The unit '{unit}' is unknown' at position 0"
            raise FhirError(400, f"HAPI-2309: Error processing unit '{unit}': {unknown}")
        height = math.degrees(distance * _KILOMETRES[unit] / _EARTH_RADIUS)
        width = height / max(math.cos(math.radians(north)), 1e-6)
        parts.append("latitude BETWEEN ? AND ? AND longitude BETWEEN ? AND ?")
        args += (north - height, north + height, east - width, east + width)
    return [Condition("coords", f"param = ? AND {either(parts)}", tuple(args), "", 3)]


KIND = Kind("special", conditions, "coords", ("param", "row_id", "latitude", "longitude"), extractor, table_rows)
