"""The benchmark: an item is a case, its answer the list of populations to which the case belongs."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import medagent
from medagent import fhir
from medagent.engine import DataRef, Metrics, Scored, TableLine, TableSection
from medagent_ecqm.checkout import Checkout, is_checkout, read_checkout

SEED = "ecqm"
"""The seed of the neutral names, so that two imports of a checkout are equal."""
FUNCTIONS = Path(__file__).with_name("functions.json")
CASES, VALUE_SETS = "cases.json", "value-sets.ndjson"
QUESTION = (
    "To which populations of this measure does this patient's case belong? Answer with the list of their names, as "
    "written above. A population that counts encounters is in the list if at least one encounter is in it. The list is "
    "empty if there is none."
)


class EcqmSettings(medagent.FhirSettings):
    """The options of `medagent run ecqm`."""

    max_rounds: Annotated[int, medagent.Option("Who answers", kind="value", for_=("run", "episode"))] = 30
    """The most messages that an agent may send."""
    exclude: Annotated[Path | None, medagent.Option("Which items", "place", kind="path", metavar="FILE")] = None
    """Leave out the cases in this file, one id per line: of the item, or of the case's folder. # begins a comment."""
    complete: Annotated[bool, medagent.Option("Which items", kind="value")] = False
    """Leave out all cases with codes that only a missing value set explains, even if the chart shows their names."""


@dataclass(frozen=True, kw_only=True)
class Case(medagent.FhirItem):
    """A case of a measure."""

    folder: str
    expected: tuple[str, ...]
    populations: tuple[str, ...]
    """All populations of the measure."""
    reason: str
    """Why the steward expects it."""
    unexplained: tuple[str, ...]
    """`named`, `unnamed`: which codes only a missing value set explains."""


class Ecqm(medagent.FhirBenchmark[EcqmSettings]):
    """Test cases of CMS quality measures, with the populations that their stewards expect."""

    name = "ecqm"
    Settings = EcqmSettings
    imports = "a checkout of cqframework/ecqm-content-qicore-2024 (quality measures with test cases)"
    example = "medagent run ecqm --model gpt-4o-mini --protocol tools"
    terminology = True
    brings_charts = True
    kinds: ClassVar[Mapping[str, str]] = {"no-list": "no answer, or not a list", "populations": "not the expected list"}

    def items(self, source: Any) -> Sequence[Case]:
        measures, cases = _imported()
        return [_item(case, measures[case["measure"]]) for case in cases]

    def data(self, source: Any) -> DataRef:
        digest = hashlib.sha256(_file(CASES).read_bytes()).hexdigest() if _file(CASES).exists() else ""
        return DataRef(name="CMS quality measures", digest=digest)

    def grader(self, source: Any, rules: str) -> medagent.Grader[medagent.EpisodeRow]:
        return EcqmGrader()

    def now(self, source: Any) -> datetime:
        return datetime(2027, 1, 1, tzinfo=UTC)

    def patients(self, source: Any, say: medagent.Say) -> fhir.EhrFile:
        return (
            fhir.imported_file(_file(VALUE_SETS), say) if _file(VALUE_SETS).exists() else super().patients(source, say)
        )

    def protocol(self, source: Any, kind: str) -> fhir.Protocol:
        return fhir.load_protocol(kind, functions=FUNCTIONS)

    def left_out(self, settings: EcqmSettings, items: Sequence[Any], ehr: Any, say: medagent.Say) -> Sequence[str]:
        unusable = {"unnamed", "named"} if settings.complete else {"unnamed"}
        missing = [case.id for case in items if not unusable.isdisjoint(case.unexplained)]
        if missing:
            say(f"{len(missing)} of {len(items):,} cases left out: a value set that explains their codes is missing")
        disputed = _listed(settings.exclude)
        excluded = [case.id for case in items if not disputed.isdisjoint((case.id, case.folder))]
        if settings.exclude:
            say(f"{len(excluded)} of {len(items):,} cases left out: listed in {settings.exclude}")
        return list(dict.fromkeys([*missing, *excluded]))

    def import_data(self, path: Path) -> str | None:
        """See `Benchmark.import_data`. `path` is a checkout."""
        if not is_checkout(path):
            return None
        checkout = read_checkout(path, SEED)
        if not checkout.cases:
            raise medagent.UserError(f"{path}: contains no case with one group of populations")
        _file(CASES).parent.mkdir(parents=True, exist_ok=True)
        _write(VALUE_SETS, "".join(f"{json.dumps(value_set)}\n" for value_set in checkout.value_sets.values()))
        _write(CASES, json.dumps({"measures": checkout.measures, "cases": checkout.cases}))
        return "\n".join(_report(checkout))


class EcqmGrader(medagent.Grader[medagent.EpisodeRow]):
    """An item is right if the answer is exactly the steward's list."""

    def score(self, item: Any, row: medagent.EpisodeRow, judged: object = None) -> medagent.Score:
        score = medagent.set_score(row.answer, item.expected, among=item.populations)
        kind = "" if score.correct else "populations" if score.checks else "no-list"
        return replace(score, kind=kind, because=f"the steward's reason: {item.reason}" if item.reason else "")

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        """The rate of each measure, and the share of cases in which each population agrees with the steward."""
        metrics = super().metrics(scores)
        checks = [check for scored in scores if scored.score for check in scored.score.checks]
        known = dict.fromkeys(name for scored in scores for name in scored.item.populations)
        agreed: dict[str, list[bool]] = {
            name: [check.passed for check in checks if check.name == name] for name in known
        }
        lines = [
            TableLine(name=name, n=len(passed), value=sum(passed) / len(passed), counts={"right": sum(passed)})
            for name, passed in agreed.items()
            if passed
        ]
        section = TableSection(
            lines=tuple(lines), title="Agreement by population", name="population", figure="agreement"
        )
        return replace(metrics, table=[*metrics.table, section])


def _file(name: str) -> Path:
    return fhir.data_dir() / "ecqm" / name


def _write(name: str, text: str) -> None:
    aside = _file(f".{name}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(_file(name))


def _imported() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        state = _file(CASES).stat()
    except OSError:
        raise medagent.UserError(
            "the cases are not bundled: get a checkout of cqframework/ecqm-content-qicore-2024, then run medagent data "
            "import FOLDER"
        ) from None
    return _read(_file(CASES), state.st_mtime_ns)


@lru_cache(maxsize=1)
def _read(file: Path, changed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    data = json.loads(file.read_bytes())
    return data["measures"], data["cases"]


def _item(case: Mapping[str, Any], measure: Mapping[str, Any]) -> Case:
    return Case(
        id=case["id"],
        group=case["measure"],
        question=QUESTION,
        context=_context(case, measure),
        target=json.dumps(case["populations"]),
        chart=case["chart"],
        folder=case["folder"],
        expected=tuple(case["populations"]),
        populations=tuple(population["code"] for population in measure["populations"]),
        reason=case["reason"],
        unexplained=tuple(case["unexplained"]),
    )


def _context(case: Mapping[str, Any], measure: Mapping[str, Any]) -> str:
    """The measure and the case in words."""
    end = case["period"]["end"]
    lines = [
        f"Measure: {measure['title']}",
        measure["description"],
        "",
        "Populations:",
        *(f"- {population['code']}: {population['description']}" for population in measure["populations"]),
        "",
        f"Measurement period: {case['period']['start']} to {end}. It is now the day after the end of this period.",
        f"Patient: {case['patient']}",
    ]
    if measure["value_sets"]:
        lines += [
            "",
            "Value sets on this server:",
            *(f"- {value_set['name']}: {value_set['url']}" for value_set in measure["value_sets"]),
        ]
    return "\n".join(lines)


def _listed(file: Path | None) -> set[str]:
    """The ids in a file. Raises UserError."""
    if file is None:
        return set()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise medagent.UserError(f"{file}: cannot be read: {error}") from None
    return {name for line in lines if (name := line.partition("#")[0].strip())}


def _report(checkout: Checkout) -> Sequence[str]:
    """The message of an import."""
    imported = len(checkout.measures)
    lines = [f"{len(checkout.cases):,} cases of {imported} measures imported. Run them: medagent run ecqm --model NAME"]
    for reason, measures in checkout.skipped.items():
        whole = len(set(measures) - checkout.measures.keys())
        lines.append(f"left out: {len(measures):,} cases {reason}" + (f" (all of {whole} measures)" if whole else ""))
    if checkout.missing:
        states = Counter(state for case in checkout.cases for state in case["unexplained"])
        lines += [
            f"{len(checkout.missing)} value sets of these measures are not in the folder",
            f"left out of runs: {states['unnamed']:,} cases with codes that only these value sets explain",
            f"left out with --complete: {states['named']:,} cases with such codes of which the chart shows the names",
        ]
    return lines
