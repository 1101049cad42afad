"""Reads a checkout of `cqframework/ecqm-content-qicore-2024`: measures, cases and value sets.

A case is a folder of resources. Its MeasureReport has the populations that the steward expects, and never becomes part
of the chart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medagent import UserError
from medagent_ecqm.neutral import Neutral

MEASURES, CASES, VALUE_SETS = "input/resources/measure", "input/tests/measure", "input/vocabulary/valueset"
REASON = "cqfm-testCaseDescription"
"""The end of the url of the extension with the steward's reason."""
OBSERVATION = "-observation"
"""The end of the codes that are not populations, such as `measure-observation`: they count observations."""
SEVERAL = "with several groups of populations"
INCOMPLETE = "without a patient, a measurement period or expected populations"
UNDEFINED = "that expect a population which the measure does not define"
Coding = tuple[str, str]


@dataclass
class Checkout:
    """What a checkout has. `skipped` lists the measures of the cases that are left out, by reason."""

    measures: dict[str, dict[str, Any]] = field(default_factory=dict)
    cases: list[dict[str, Any]] = field(default_factory=list)
    value_sets: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: dict[str, list[str]] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    """The urls of value sets that the measures name and the checkout lacks."""


def is_checkout(path: Path) -> bool:
    """Whether a folder is a checkout of measures with test cases."""
    return (path / MEASURES).is_dir() and (path / CASES).is_dir()


def read_checkout(path: Path, seed: str) -> Checkout:
    """Read a checkout; `seed` determines the neutral names. Raises UserError for a file that cannot be read."""
    checkout = Checkout()
    for file in sorted((path / VALUE_SETS).rglob("*.json")):
        value_set = _read(file)
        if value_set.get("resourceType") == "ValueSet" and "url" in value_set:
            checkout.value_sets[value_set["url"]] = value_set
    codes = {url: set(_codes(value_set)) for url, value_set in checkout.value_sets.items()}
    for file in sorted((path / MEASURES).glob("*.json")):
        measure = _read(file)
        needs = _needs(measure)
        described = _described(measure, needs, checkout.value_sets)
        folders = sorted(folder for folder in (path / CASES / file.stem).glob("*") if folder.is_dir())
        for folder in folders:
            try:
                case = _case(folder, file.stem, seed, needs, codes, described)
            except _LeftOutError as reason:
                checkout.skipped.setdefault(str(reason), []).append(file.stem)
            else:
                checkout.cases.append(case)
                checkout.measures[file.stem] = described
        if file.stem in checkout.measures:
            checkout.missing |= {url for urls in needs.values() for url in urls} - codes.keys()
    return checkout


class _LeftOutError(Exception):
    """Why a case is not imported."""


def _read(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from None
    if not isinstance(value, dict) or "resourceType" not in value:
        raise UserError(f"{file}: is not a FHIR resource")
    return value


def _described(
    measure: Mapping[str, Any], needs: Mapping[Coding, set[str]], value_sets: Mapping[str, Any]
) -> dict[str, Any]:
    """What the question says of a measure: title, description, populations, and the value sets that can be read.

    The populations are those of the first group. Of seven cases of a measure with two groups, the report has one.
    """
    group = measure.get("group", [{}])[0]
    populations = [
        {"code": code, "description": population.get("description", "")}
        for population in group.get("population", [])
        if not (code := _code(population)).endswith(OBSERVATION)
    ]
    urls = sorted({url for of_path in needs.values() for url in of_path} & value_sets.keys())
    return {
        "title": measure.get("title") or measure.get("name", ""),
        "description": measure.get("description", ""),
        "populations": populations,
        "value_sets": [
            {"url": url, "name": value_sets[url].get("title") or value_sets[url].get("name")} for url in urls
        ],
    }


def _code(population: Mapping[str, Any]) -> str:
    return str(population.get("code", {}).get("coding", [{}])[0].get("code", ""))


def _needs(measure: Mapping[str, Any]) -> dict[Coding, set[str]]:
    """The urls of the value sets that the measure's logic reads, by resource type and element."""
    needs: dict[Coding, set[str]] = {}
    for library in measure.get("contained", []):
        for requirement in library.get("dataRequirement", []):
            for code_filter in requirement.get("codeFilter", []):
                if "valueSet" in code_filter:
                    key = requirement["type"], str(code_filter.get("path"))
                    needs.setdefault(key, set()).add(code_filter["valueSet"].partition("|")[0])
    return needs


def _case(
    folder: Path,
    measure: str,
    seed: str,
    needs: Mapping[Coding, set[str]],
    codes: Mapping[str, set[Coding]],
    described: Mapping[str, Any],
) -> dict[str, Any]:
    """The case in a folder. Raises _LeftOutError if it cannot be an item."""
    resources = [_read(file) for file in sorted(folder.rglob("*.json"))]
    reports = [resource for resource in resources if resource["resourceType"] == "MeasureReport"]
    chart = [resource for resource in resources if resource["resourceType"] != "MeasureReport" and "id" in resource]
    patients = [resource for resource in chart if resource["resourceType"] == "Patient"]
    if len(reports) != 1 or not patients or not _complete(reports[0]):
        raise _LeftOutError(INCOMPLETE)
    if len(reports[0]["group"]) > 1:
        raise _LeftOutError(SEVERAL)
    neutral = Neutral(f"{seed}|{measure}|{folder.name}", chart)
    expected = _expected(reports[0]["group"][0])
    if not set(expected) <= {population["code"] for population in described["populations"]}:
        raise _LeftOutError(UNDEFINED)
    reasons = [
        extension.get("valueMarkdown")
        for extension in reports[0].get("extension", [])
        if extension["url"].endswith(REASON)
    ]
    return {
        "id": f"{measure}-{neutral.name('case')[:8]}",
        "folder": folder.name,
        "measure": measure,
        "period": reports[0]["period"],
        "patient": neutral.reference(f"Patient/{patients[0]['id']}"),
        "populations": expected,
        "reason": " ".join(str(reasons[0]).split()) if reasons else "",
        "unexplained": sorted({word for resource in chart for word in _unexplained(resource, needs, codes)}),
        "chart": neutral.chart(),
    }


def _complete(report: Mapping[str, Any]) -> bool:
    return bool(report.get("group")) and {"start", "end"} <= report.get("period", {}).keys()


def _expected(group: Mapping[str, Any]) -> list[str]:
    """The populations of a report's group to which the case belongs."""
    counts = {_code(population): int(population.get("count", 0)) for population in group.get("population", [])}
    return [code for code, count in counts.items() if count and not code.endswith(OBSERVATION)]


def _unexplained(
    resource: Mapping[str, Any], needs: Mapping[Coding, set[str]], codes: Mapping[str, set[Coding]]
) -> Iterator[str]:
    """`named` and `unnamed`: whether the resource has codes, with a name or without, that are in no value set of the
    checkout, although the measure reads a value set there that the checkout lacks.
    """
    for (kind, path), urls in needs.items():
        if kind != resource["resourceType"] or urls <= codes.keys():
            continue
        known = set().union(*(codes.get(url, set()) for url in urls))
        concepts = resource.get(path) or resource.get(f"{path}CodeableConcept") or []
        for concept in concepts if isinstance(concepts, list) else [concepts]:
            codings = concept.get("coding", [])
            if not any((coding.get("system"), coding.get("code")) in known for coding in codings):
                has_name = concept.get("text") or any(coding.get("display") for coding in codings)
                yield "named" if has_name else "unnamed"


def _codes(value_set: Mapping[str, Any]) -> Iterator[Coding]:
    for part in value_set.get("compose", {}).get("include", []):
        yield from ((part.get("system", ""), concept["code"]) for concept in part.get("concept", []))
    contained = list(value_set.get("expansion", {}).get("contains", []))
    while contained:
        entry = contained.pop()
        yield entry.get("system", ""), entry.get("code", "")
        contained += entry.get("contains", [])
