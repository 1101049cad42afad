"""The embedded server as the source of facts: the official verdicts hold over it as they do over the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from fhir_server import Server
from medagent.fhir_data.facts import server_facts
from refsol.medagentbench import Source, grade_item, read_recorded
from tests.refsol.medagentbench.items import graded
from tests.shared_data import DATA, SHARED, need, read_xz

PACKED = DATA / "medagentbench"
BASE = "http://localhost/fhir"


@contextmanager
def embedded(name: str) -> Iterator[Source]:
    server = Server.open(None, base=BASE)
    try:
        server.load(read_xz(PACKED / name).splitlines())
        yield server_facts(server, BASE)
    finally:
        server.close()


def test_every_vector_has_the_official_verdict() -> None:
    tasks = {task["id"]: task for task in json.loads(read_xz(PACKED / "tasks.json.xz"))}
    cases = [json.loads(line) for line in read_xz(PACKED / "cases.jsonl.xz").splitlines()]
    with embedded("ehr.ndjson.xz") as ehr:
        wrong = [
            f"{case['case']}: {verdict.reason}"
            for case in cases
            if (verdict := grade_item(tasks[case["task_id"]], case["answer"], case["post_history"], ehr)).correct
            is not case["verdict"]
        ]
    assert wrong == []


def test_the_real_results_file_has_every_official_verdict() -> None:
    real = need(SHARED / "medagentbench" / "results_v2_r2_20251127_000553.json")
    tasks = json.loads(need(SHARED / "medagentbench" / "official" / "test_data_v2.json").read_text(encoding="utf-8"))
    official = json.loads(need(real.with_suffix(".verdicts.json")).read_text(encoding="utf-8"))
    with embedded("rebuilt_ehr.ndjson.xz") as ehr:
        verdicts = graded(read_recorded(real, tasks), tasks, ehr)
    found = {name: verdict.correct for name, (verdict, _) in verdicts.items()}
    assert found == official
    assert sum(verdict is True for verdict in found.values()) == 275
