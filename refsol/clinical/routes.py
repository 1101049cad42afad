"""Routes of drugs: the words and codes by which an order states them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from refsol.clinical.vocabulary import spaced
from refsol.json_values import as_object, objects

ROUTES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "IV": (
        ("iv", "i.v.", "ivpb", "intravenous", "intravenously", "iv infusion", "iv push", "iv piggyback"),
        ("47625008", "IV", "IVC", "IVINJ", "IVPUSH", "IVPB", "20045000", "C38276"),
    ),
    "oral": (
        ("oral", "orally", "po", "p.o.", "by mouth", "per os", "per oral", "mouth"),
        ("26643006", "PO", "20053000", "C38288"),
    ),
    "SC": (
        ("sc", "s.c.", "sq", "subq", "sub-q", "subcut", "subcutaneous", "subcutaneously", "under the skin"),
        ("34206005", "SQ", "SC", "20066000", "C38299"),
    ),
    "IM": (
        ("im", "i.m.", "intramuscular", "intramuscularly", "into the muscle"),
        ("78421000", "IM", "20035000", "C28161"),
    ),
    "nasal": (
        ("nasal", "nasally", "intranasal", "nasal spray", "in the nose"),
        ("46713006", "NASINHL", "NS", "C38284"),
    ),
    "rectal": (("rectal", "rectally", "per rectum", "pr"), ("37161004", "PR", "C38295")),
    "sublingual": (("sublingual", "sl", "under the tongue"), ("37839007", "SL", "C38300")),
    "buccal": (("buccal",), ("54471007", "BUC", "C38193")),
    "inhalation": (("inhalation", "inhaled", "nebulized", "by nebulizer"), ("447694001", "IPINHL", "C38216")),
    "topical": (("topical", "topically", "on the skin"), ("6064005", "TOPICAL", "TOP", "C38304")),
    "transdermal": (("transdermal", "patch"), ("45890007", "TRNSDERM", "TD", "C38305")),
    "intradermal": (("intradermal",), ("372464004", "IDINJ", "ID", "C38238")),
    "ophthalmic": (("ophthalmic", "in the eye"), ("54485002", "OPTHALTA", "OP", "C38287")),
    "otic": (("otic", "in the ear"), ("10547007", "OTIC", "C38192")),
    "vaginal": (("vaginal", "vaginally"), ("16857009", "VAGINS", "VG", "C38313")),
    "intrathecal": (("intrathecal", "intrathecally"), ("72607000", "IT", "C38267")),
    "epidural": (("epidural",), ("404820008", "EPI", "EP", "C38243")),
    "intraosseous": (("intraosseous", "io"), ("417255000", "IOSSC", "IO", "C38253")),
    "tube": (
        ("nasogastric", "ng tube", "per tube", "gastrostomy", "g-tube", "peg tube", "enteral"),
        ("127492001", "127490009", "NG", "GT", "C38285"),
    ),
}
"""By route its words, and its codes: SNOMED CT, HL7 v3 RouteOfAdministration and v2 table 0162, EDQM, NCI Thesaurus. No
code of these systems means two routes, so a code counts in any of them.
"""


def route_named(text: str) -> str:
    """The route that a text of a rule means; the text in lower case if it is none of the table."""
    return next(iter(routes_in_text(text)), spaced(text).lower())


@cache
def _any_word() -> tuple[re.Pattern[str], Mapping[str, str]]:
    words = {word: route for route, (words, _) in ROUTES.items() for word in words}
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, longest_first))})(?![^\W_])"), words


def routes_in_text(text: Any) -> set[str]:
    """The routes that a text names, as whole words in any case."""
    if not isinstance(text, str):
        return set()
    pattern, words = _any_word()
    return {words[match[0]] for match in pattern.finditer(spaced(text).lower())}


def routes_in(value: Any, expected: str) -> Iterator[set[str]]:
    """The routes that each part of an order's route means: a text, the text of a concept, displays, codes. A part that
    means none of the table is left out, unless it is the `expected` text.
    """
    concept = as_object(value)
    codings = objects(concept.get("coding"))
    for text in (value, concept.get("text"), *(coding.get("display") for coding in codings)):
        if isinstance(text, str) and spaced(text).lower() == expected:
            yield {expected}
        elif routes := routes_in_text(text):
            yield routes
    for coding in codings:
        if routes := {route for route, (_, codes) in ROUTES.items() if coding.get("code") in codes}:
            yield routes
