"""The patients of a run: opens them, checks that they have the true ids, and reads whole charts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from medagent.benchmarks.fhiragentbench._agents import chart_queries
from medagent.benchmarks.fhiragentbench.sets import hospital_of, manifest_of
from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings
from medagent.core.errors import UserError
from medagent.core.waiting import blocking
from medagent.engine.benchmark import Say
from medagent.fhir_data.embedded import EhrFile, bundled_file, imported_file
from medagent.fhir_data.record import EhrSession
from medagent.fhir_data.store import count_types, missing_ids, stored_lines
from medagent.fhir_episodes.fhir_base import API_BASE, FhirBase
from medagent.fhir_episodes.reads import Handling, handled, read_page
from refsol.fhiragentbench import Ids, Question, figures, grade_row
from refsol.fhiragentbench.figures import Figures
from refsol.fhiragentbench.outputs import Output
from refsol.fhiragentbench.retrieval import RuleName

if TYPE_CHECKING:
    from medagent.fhir_data.embedded import EmbeddedEhr

MIMIC = "http://mimic.mit.edu/"
DEMO = 100
"""The number of patients in the open MIMIC demo. A file with more of them contains PhysioNet's credentialed data."""
_KINDS = 6


def patients_file(source: FhirAgentBenchSettings, say: Say = lambda _: None) -> EhrFile:
    """The patients for the embedded server: the user's file, or the patients of the data set. Raises UserError."""
    file = source.ehr or hospital_of(source.dataset)
    if file is not None:
        return imported_file(file, say)
    if manifest_of(source.dataset) is not None:
        return bundled_file(say)
    raise UserError(
        "the patients of these questions are not bundled: import them once (medagent ehr import "
        "mimic-demo/*.ndjson.gz --data mimic.sqlite), then pass --ehr mimic.sqlite"
    )


def patients_of(source: FhirAgentBenchSettings) -> Path | None:
    """The embedded server's file of the patients, or None if it is not available."""
    if source.fhir is not None:
        return None
    stat = source.ehr.stat() if source.ehr is not None and source.ehr.is_file() else None
    return _at_hand(source.dataset, source.ehr, stat and (stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=4)
def _at_hand(dataset: str, ehr: Path | None, changed: tuple[int, int] | None) -> Path | None:
    try:
        return patients_file(FhirAgentBenchSettings(dataset=dataset, ehr=ehr)).path
    except UserError:
        return None


def without_their_ids(questions: Sequence[Question], file: Path, say: Say) -> list[str]:
    """The ids of the questions with true ids that the patients' file lacks.

    Raises UserError if the file contains none of the true ids.
    """
    needed: dict[str, set[str]] = {}
    for question in questions:
        for kind, ids in question.true_ids.items():
            needed.setdefault(kind, set()).update(ids)
    missing = missing_ids(file, needed)
    absent, total = (sum(map(len, ids.values())) for ids in (missing, needed))
    if absent and absent == total:
        raise UserError(
            f"{file}: contains none of the {total:,} true ids of the questions, so its patients differ; the published "
            "questions need the MIMIC-IV demo on FHIR 2.1.0, the bundled ones do not need --ehr"
        )
    left = [
        question.id
        for question in questions
        if any(not missing.get(kind, set()).isdisjoint(ids) for kind, ids in question.true_ids.items())
    ]
    if left:
        kinds = ", ".join(f"{len(ids):,} of {len(needed[kind]):,} {kind}" for kind, ids in missing.items())
        say(
            f"{file}: {absent:,} of {total:,} true ids are missing ({kinds}); {len(left)} of {len(questions):,} "
            "questions are left out"
        )
    return left


def check_credentialed(file: Path, confirmed: bool, say: Say) -> None:
    """Warn that PhysioNet's credentialed data needs an agreement before it is sent to a provider.

    Raises UserError without a terminal if `confirmed` is False.
    """
    count = count_types(file).get("Patient", 0)
    if count <= DEMO or not any(MIMIC in line and f'"system": "{MIMIC}' in line for line in _first_patients(file)):
        return
    text = (
        f"{file}: contains {count:,} patients of MIMIC: PhysioNet's credentialed data must not be sent to a model's "
        "provider without a suitable agreement"
    )
    if not confirmed and not sys.stdin.isatty():
        raise UserError(f"{text}. If you have one, or the model runs on your own machines, pass --yes")
    say(text)


def _first_patients(file: Path) -> list[str]:
    lines = []
    for line in stored_lines(file, "Patient"):
        lines.append(line)
        if len(lines) == _KINDS:
            break
    return lines


class _Reader:
    """Reads of one patient's chart, and the ids in the replies by type."""

    def __init__(self, session: EhrSession) -> None:
        self._session = session
        self._base = FhirBase(API_BASE)
        self.ids: dict[str, dict[str, None]] = {}

    async def read(self, target: str) -> bool:
        """Read all pages of a search, or one resource. False if the server refuses it."""
        while target:
            reply = await self._session.get(target)
            if not reply.ok:
                return False
            page = read_page(reply.text)
            for kind, ids in page.ids.items():
                self.ids.setdefault(kind, {}).update(dict.fromkeys(ids))
            target = self._base.target(page.next) if page.next else ""
        return True


async def _chart_ids(ehr: EmbeddedEhr, patient: str, handling: Handling) -> dict[str, list[str]]:
    """The ids that an agent finds by reading a whole chart, by type, each once."""
    async with ehr.session(patient) as session:
        reader = _Reader(session)
        for query, instead in chart_queries(patient):
            if not await reader.read(handled(f"/{query}&_count=1000", handling)) and instead:
                await reader.read(handled(f"/{instead}&_count=1000", handling))
    return {kind: list(ids) for kind, ids in reader.ids.items()}


def would_find(file: Path, targets: Iterable[str], ids: Ids) -> bool:
    """Whether these requests, sent to the patients as they are in the file, find all ids."""
    from medagent.fhir_data.embedded import EmbeddedEhr

    async def read() -> bool:
        ehr = EmbeddedEhr.open(file, API_BASE)
        try:
            async with ehr.session("") as session:
                reader = _Reader(session)
                for target in targets:
                    await reader.read(target)
        finally:
            ehr.close()
        return all(resource_id in reader.ids.get(kind, {}) for kind, listed in ids.items() for resource_id in listed)

    return blocking(read())


def fetch_all(questions: Sequence[Question], file: Path, handling: Handling, rules: RuleName) -> Figures:
    """The retrieval scores of an agent that reads whole charts. Its answers are not judged."""
    charts = _charts(file, tuple(sorted({question.patient for question in questions})), handling)
    return figures(
        grade_row(question, Output(question.id, None, charts[question.patient]), None, rules=rules).part
        for question in questions
    )


@lru_cache(maxsize=2)
def _charts(file: Path, patients: Sequence[str], handling: Handling) -> Mapping[str, Mapping[str, list[str]]]:
    from medagent.fhir_data.embedded import EmbeddedEhr

    async def read() -> Mapping[str, Mapping[str, list[str]]]:
        ehr = EmbeddedEhr.open(file, API_BASE)
        try:
            return {patient: await _chart_ids(ehr, patient, handling) for patient in patients}
        finally:
            ehr.close()

    return blocking(read())


def left_out_line(left: Sequence[str], total: int) -> str:
    """A text about the questions that were left out. Empty if there are none."""
    return f"{len(left)} of {total:,} questions left out: true ids that the patients' file lacks" if left else ""
