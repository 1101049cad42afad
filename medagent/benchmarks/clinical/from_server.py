"""Makes a set from a hospital's own server, for `medagent data new --from FILE.py --fhir URL`.

The rules run on the charts of some patients. Only the searches that they need are sent, and each result is appended to
a file at once, so that an interrupted command continues. The set keeps the results of its own tasks. All files can be
read only by their owner.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from pydantic import AwareDatetime, BaseModel, ConfigDict

from medagent.benchmarks.clinical.asking import asked, pages, rules_at_fault, ruling_text
from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.benchmarks.clinical.generation import (
    TypesGenerator,
    accounts_of,
    branches,
    missing,
    sample_type,
    tasks_of,
)
from medagent.benchmarks.clinical.sampling import is_living
from medagent.benchmarks.clinical.sets import write_set
from medagent.benchmarks.clinical.settings import HospitalSettings
from medagent.core.errors import FhirUnavailableError, StopRunError, UserError
from medagent.core.tell import Tell
from medagent.core.wire import without_password
from medagent.core.writing import write_whole, writing
from medagent.engine.data_sets import BEGUN, GeneratedSet, Generation, SetManifest, SetOptions, read_manifest
from medagent.engine.patient_data import owner_only
from medagent.fhir_data.record import EhrSession
from medagent.fhir_episodes.episode import server_choice
from refsol.clinical.chart import Chart
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.recorded import (
    READS,
    RecordedSource,
    Results,
    not_recorded,
    read_results,
    result_lines,
)
from refsol.clinical.sources import Resource, Source
from refsol.clinical.task_type import TaskType
from refsol.errors import DataFault
from refsol.files import read_json, read_text
from refsol.json_values import as_object, json_value, objects
from refsol.schema import validator

_PART = "reads.part"
"""The results so far, and the server and clock that they are from, until the set is complete."""
_NEEDED = "_elements=identifier,deceased"
"""What is read of a Patient: the id, the identifiers, and whether the patient lives."""
_IDS_AT_ONCE, _PAGE = 50, 200
_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")


class Origin(BaseModel):
    """Where and when charts were read: the digest of the server's address, the clock of the tasks, and the system of
    the identifiers that texts show (empty: they show the ids of the Patients).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: str
    now: AwareDatetime
    id_system: str = ""


@dataclass(frozen=True, slots=True)
class FromServer:
    """Makes a set in a new or empty folder, or continues in one. `say` is called with messages, `report` with the
    number of patients done and of all.
    """

    benchmark: str
    types: Sequence[TaskType]
    folder: Path
    options: SetOptions
    server: HospitalSettings
    say: Callable[[str], None]
    report: Tell

    def make(self) -> GeneratedSet:
        """Make it. Raises UserError or RuleError. What was read stays, and another call continues."""
        with owner_only(True), rules_at_fault(private=True), writing(self.folder):
            origin, results = self._begun()
            if results:
                self.say(f"{self.folder}: continued with {len(results)} searches that were read before")
            try:
                with (self.folder / _PART).open("a", encoding="utf-8", newline="\n") as file:
                    patients = asyncio.run(self._read(origin.now, results, file))
            except FhirUnavailableError as error:
                raise UserError(f"{error}; run the command again to continue") from None
            except StopRunError as error:
                raise UserError(str(error)) from None
            return self._write(origin, results, self._shown(patients))

    def _begun(self) -> tuple[Origin, dict[str, Sequence[Resource]]]:
        """The server and the clock, and what an interrupted command has read. Raises UserError for another server."""
        folder, path, server = self.folder, self.folder / BEGUN, self.server
        address = hashlib.sha256(without_password(server.fhir or "").rstrip("/").encode()).hexdigest()
        now = server.now or datetime.now().astimezone().replace(microsecond=0)
        folder.mkdir(parents=True, exist_ok=True)
        read = (folder / _PART).is_file() and (folder / _PART).stat().st_size > 0
        if path.is_file() and read:
            expected = "the server and the clock of an interrupted command are expected"
            before: Origin = read_json(path, validator(Origin), expected=expected, error=UserError)
            if before.server != address or (server.now or before.now) != before.now:
                time = before.now.isoformat()
                raise UserError(
                    f"{folder}: contains a part of a set of another server or time ({time}); name a new folder"
                )
            return before, read_results(folder / _PART)
        if {file.name for file in folder.iterdir()} - {BEGUN, _PART}:
            raise UserError(f"{folder}: is not empty; name a new folder")
        origin = Origin(server=address, now=now, id_system=server.id_system or "")
        write_whole(folder / _PART, "")
        write_whole(path, origin.model_dump_json())
        return origin, {}

    async def _read(self, now: datetime, results: dict[str, Sequence[Resource]], file: TextIO) -> list[Resource]:
        """Run the rules on the patients' charts, and append what they read to a file. Returns the patients."""
        turns, base = asyncio.Semaphore(self.server.concurrency), self.server.api_base
        done, stored = 0, len(results)
        async with server_choice(self.server, now).open(base) as ehr:
            await ehr.check()
            async with ehr.session("") as session:
                patients = await self._patients(session)

            async def read(patient: str) -> None:
                nonlocal done, stored
                async with turns, ehr.session(patient) as session:
                    for kind in self.types:
                        await asked(session, base, results, partial(_rule, kind, patient, now))
                new = dict(islice(results.items(), stored, None))
                done, stored = done + 1, stored + len(new)
                file.writelines(result_lines(new))
                file.flush()
                self.report(done, len(patients))

            tasks = [asyncio.create_task(read(str(patient["id"]))) for patient in patients]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return patients

    async def _patients(self, ehr: EhrSession) -> list[Resource]:
        """The living patients. Raises UserError for an unknown id or group, and FhirUnavailableError."""
        base, most, living = self.server.api_base, self.options.patients, list[Resource]()
        if self.server.patient_ids is not None:
            return await _named(ehr, base, _ids_of(self.server.patient_ids))
        if self.server.group is not None:
            return await _named(ehr, base, await _members(ehr, self.server.group))
        async for page in pages(ehr, base, f"Patient?{_NEEDED}&_count={min(most, _PAGE)}"):
            living += [patient for patient in page if is_living(patient)]
            if len(living) >= most:
                break
        return living[:most]

    def _shown(self, patients: Sequence[Resource]) -> dict[str, str]:
        """By id of the Patient the identifier that texts show; empty if they show the id itself. Raises UserError."""
        system = self.server.id_system
        if system is None:
            return {str(patient["id"]): "" for patient in patients}
        shown = {}
        for patient in patients:
            values = (
                identifier.get("value")
                for identifier in objects(patient.get("identifier"))
                if identifier.get("system") == system
            )
            if value := next(filter(None, values), None):
                shown[str(patient["id"])] = str(value)
        if not shown:
            raise UserError(
                f"--id-system {system}: none of {len(patients)} patients shows an identifier of this system"
            )
        if left_out := len(patients) - len(shown):
            self.say(f"{left_out} patients without an identifier of {system} are left out")
        return shown

    def _write(self, origin: Origin, results: Results, shown: Mapping[str, str]) -> GeneratedSet:
        """Sample the tasks, and write the set with what their rules read. Raises UserError, RuleError."""
        folder, options = self.folder, self.options
        known = RecordedSource(results, partial(not_recorded, folder / READS))
        seed = options.seed or secrets.token_hex()
        samples = {
            kind.name: sample_type(kind, shown, known, origin.now, options.per_type, seed) for kind in self.types
        }
        tasks = [task for kind in self.types for task in tasks_of(kind, samples[kind.name].tasks, shown)]
        if not tasks:
            raise UserError(f"no chart of {len(shown)} patients allows a task: {'; '.join(missing(samples))}")
        known.used.clear()
        kinds = {kind.name: kind for kind in self.types}
        for task in tasks:
            ruling_text(kinds[task.type], _chart(task.patient, origin.now, known))
        counts = Counter(
            str(resource.get("resourceType")) for resources in known.used.values() for resource in resources
        )
        sampled_options = replace(options, patients=len(shown))
        generation = Generation.of(TypesGenerator.version, seed, options.seed is None, sampled_options, counts)
        generation = generation.model_copy(update={"server": origin.server, "id_system": origin.id_system})
        reads = list(result_lines(known.used))
        name = hashlib.sha256("".join(reads).encode()).hexdigest()[:12]
        manifest = SetManifest(
            name=name,
            benchmark=self.benchmark,
            clock=origin.now,
            files={},
            generated=generation,
            **accounts_of(samples),
        )
        write_set(folder, manifest, tasks, reads)
        (folder / _PART).unlink()
        (folder / BEGUN).unlink()
        return GeneratedSet(name, generation, len(tasks), list(branches(samples)))


def _chart(patient: str, now: datetime, source: Source) -> Chart:
    return Chart(source, patient, now, CLINICAL)


def _rule(kind: TaskType, patient: str, now: datetime, source: Source) -> None:
    with suppress(DataFault):
        kind.ruled(_chart(patient, now, source))


async def _named(ehr: EhrSession, base: str, places: Mapping[str, str]) -> list[Resource]:
    """The living ones of some patients, by id with the place that refers to it. Raises UserError for an unknown one."""
    ids, patients = list(places), dict[str, Resource]()
    for start in range(0, len(ids), _IDS_AT_ONCE):
        listed = ",".join(ids[start : start + _IDS_AT_ONCE])
        async for page in pages(ehr, base, f"Patient?_id={listed}&{_NEEDED}&_count={_IDS_AT_ONCE}"):
            patients |= {str(patient.get("id")): patient for patient in page}
    if missing := next((place for patient_id, place in places.items() if patient_id not in patients), None):
        raise UserError(f"{missing}: the server does not have a Patient with this id")
    return [patients[patient_id] for patient_id in ids if is_living(patients[patient_id])]


def _ids_of(file: Path) -> dict[str, str]:
    """The ids in a file, one per line, each with its place. Raises UserError, which does not repeat the id."""
    places = dict[str, str]()
    for number, line in enumerate(read_text(file, error=UserError).splitlines(), 1):
        if name := line.strip():
            if not _ID.fullmatch(name):
                raise UserError(f"{file}:{number}: is not the id of a Patient; write one id per line")
            places.setdefault(name, f"{file}:{number}")
    if not places:
        raise UserError(f"{file}: contains no ids; write one id of a Patient per line")
    return places


async def _members(ehr: EhrSession, group: str) -> dict[str, str]:
    """The ids of the active Patients in a Group. Raises UserError."""
    if not _ID.fullmatch(group):
        raise UserError(f"--group {group}: is not the id of a Group")
    reply = await ehr.get(f"/Group/{group}")
    if reply.status in (404, 410):
        raise UserError(f"--group {group}: the server does not have this Group")
    if not reply.ok:
        raise FhirUnavailableError(f"the FHIR server answers a read of the Group with status {reply.status}")
    members = [
        member
        for member in objects(as_object(json_value(reply.text)).get("member"))
        if member.get("inactive") is not True
    ]
    references = [str(as_object(member.get("entity")).get("reference")).split("/")[-2:] for member in members]
    ids = [reference[1] for reference in references if reference[0] == "Patient" and _ID.fullmatch(reference[-1])]
    if not ids:
        raise UserError(f"--group {group}: contains no Patients as active members")
    return dict.fromkeys(ids, f"--group {group}: a member")


def new_set_from(
    benchmark: Any,
    folder: Path,
    options: SetOptions,
    server: HospitalSettings,
    say: Callable[[str], None],
    report: Tell,
) -> tuple[GeneratedSet, datetime]:
    """Make a set of a benchmark's types over a hospital's own server, and its clock. Raises UserError, RuleError."""
    if not isinstance(benchmark, ClinicalBenchmark) or not benchmark.whole_reads:
        raise UserError("--fhir needs --from FILE.py, or an installed benchmark of task types")
    new_set = FromServer(benchmark.set_benchmark, benchmark.types, folder, options, server, say, report).make()
    return new_set, read_manifest(folder).clock
