"""HL7's code systems and value sets, as they are packed: each expands or says why not, and knows its own codes."""

from __future__ import annotations

from fhir_server import definitions
from fhir_server.terminology import HL7, NotExpandable, concepts, contains, expand


def test_every_value_set_expands_or_says_why_not() -> None:
    refused, expanded = [], 0
    for url in definitions.terminology():
        value_set = HL7.value_set(url)
        if value_set is None:
            continue
        try:
            codes = expand(value_set, HL7)
        except NotExpandable as error:
            refused.append(str(error))
            continue
        expanded += 1
        assert len({coding[:2] for coding in codes}) == len(codes), url
        for coding in codes[:2]:
            assert contains(value_set, coding.system, coding.code, HL7) is True, url
    assert expanded > 1200
    assert all(text.startswith(("Unknown", "The filter")) for text in refused)


def test_what_lies_below_what() -> None:
    system = HL7.code_system("http://terminology.hl7.org/CodeSystem/v3-ActCode")
    assert system is not None
    assert "_ActEncounterCode" in concepts(system)["AMB"].above
    encounters = HL7.value_set("http://terminology.hl7.org/ValueSet/v3-ActEncounterCode")
    assert contains(encounters, system["url"], "AMB", HL7) is True
    assert contains(encounters, system["url"], "nope", HL7) is False
    assert contains({"compose": {"include": [{"system": "urn:nope"}]}}, "urn:nope", "x", HL7) is None
