"""The functions of FHIRPath by name, and those of FHIR R4 (`extension`, `resolve`, `hasValue`, `htmlChecks`)."""

from __future__ import annotations

from collections.abc import Mapping

from fhir_server.expressions.functions import _collections, _conversions, _fhir, _numbers, _texts
from fhir_server.expressions.functions._collections import sort
from fhir_server.expressions.functions._fhir import as_type, is_of_type, of_type
from fhir_server.expressions.functions._texts import pattern
from fhir_server.expressions.scope import Signature

__all__ = ["FUNCTIONS", "SPECIAL", "as_type", "is_of_type", "of_type", "pattern", "sort"]

FUNCTIONS: Mapping[str, Signature] = {
    **_collections.FUNCTIONS,
    **_conversions.FUNCTIONS,
    **_fhir.FUNCTIONS,
    **_numbers.FUNCTIONS,
    **_texts.FUNCTIONS,
}
SPECIAL = frozenset(("is", "as", "ofType", "sort"))
"""Functions whose arguments are not expressions: types, or expressions that `-` may precede."""
