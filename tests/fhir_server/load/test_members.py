"""A resource prepared from members seen before is what it is when it is prepared as a whole."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing

import pytest

from fhir_server.errors import FhirError
from fhir_server.load.members import ImportStamp, MemberCache
from fhir_server.search.parameters import ParameterRegistry, resource_types
from fhir_server.store import BaseStore
from fhir_server.store.schema import COLUMNS
from tests.fhir_server.chance import Chance
from tests.shared_data import DATA, hospital_lines, read_xz

STAMP = ImportStamp(1_700_000_000_000, "request")


@pytest.fixture(scope="module")
def params() -> Iterator[ParameterRegistry]:
    with closing(BaseStore(None)) as store:
        yield store.registry


def outcome(cache: MemberCache, text: str) -> object:
    """The prepared resource, its index rows without order and repetition, or the refusal."""
    try:
        made = cache.prepare(text)
    except (FhirError, OverflowError) as error:
        return type(error)
    rows = set()
    for table, values, number in made.rows:
        width = len(COLUMNS[table])
        assert len(values) == number * width
        rows |= {(table, values[start : start + width]) for start in range(0, len(values), width)}
    return made.kind, made.id, made.updated, made.text, rows


def as_whole(text: str) -> str:
    """The same resource in a text that is always taken as a whole: an escape, in a member that R4 does not know."""
    return '{"notOfR4": "\\u0061", ' + text.lstrip()[1:]


def by_chance() -> Iterator[str]:
    for seed in range(600):
        chance = Chance(seed)
        kind = random.Random(seed).choice(resource_types())
        members = [*chance.resource(kind).items(), ("id", f"x{seed}")]
        if seed % 3 == 0:  # another order, and often something given twice
            random.Random(seed).shuffle(members)
            members += random.Random(seed).sample(members, 1)
        texts = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=seed % 2 == 0)}" for key, value in members]
        text = "{" + ", ".join(texts) + "}"
        yield text[:-1] if seed % 50 == 0 else text


@pytest.mark.parametrize("source", ["golden", "hospital", "chance"])
def test_members_make_the_whole(params: ParameterRegistry, source: str) -> None:
    if source == "golden":
        texts = read_xz(DATA / "hapi" / "data.ndjson.xz").splitlines()
    elif source == "hospital":
        texts = hospital_lines()[::40]
    else:
        texts = list(by_chance())
    assert len(texts) > 400
    cache = MemberCache(params, STAMP)
    taken = 0
    for text in texts * 2:  # the second time, most members have been seen
        made = outcome(cache, text)
        taken += isinstance(made, tuple)
        assert made == outcome(MemberCache(params, STAMP), as_whole(text)), text
    assert taken > len(texts)  # more than half


@pytest.mark.parametrize(
    ("members", "stored"),
    [
        ('"gender": "male", "gender": "female"', '"gender": "female"'),
        ('"deceasedBoolean": true, "deceasedDateTime": "2020"', '"deceasedBoolean": true'),
        ('"gender": "male", "active": true', '"active": true,\n  "gender": "male"'),
        (
            '"birthDate": "2020", "_birthDate": {"id": "b"}',
            '"birthDate": "2020",\n  "_birthDate": {\n    "id": "b"\n  }',
        ),
        ('"name": [], "active": true', '"active": true'),
    ],
)
def test_what_one_member_is_depends_on_another(params: ParameterRegistry, members: str, stored: str) -> None:
    cache = MemberCache(params, STAMP)
    for member in ('"gender": "male"', '"active": true', '"birthDate": "2020"', '"deceasedDateTime": "2020"'):
        cache.prepare(f'{{"resourceType": "Patient", "id": "seen", {member}}}')
    text = cache.prepare(f'{{"resourceType": "Patient", "id": "a", {members}}}').text
    assert text.partition("},\n  ")[2] == stored + "\n}"


def test_a_number_that_begins_like_the_one_before_is_another(params: ParameterRegistry) -> None:
    cache = MemberCache(params, STAMP)
    head = '{"resourceType": "Observation", "id": "a", "status": "final", "code": {"text": "x"}, "valueInteger": '
    for number in (1, 1, 12, 1):
        assert f'"valueInteger": {number}\n' in cache.prepare(f"{head}{number}}}").text
