"""A set that is made from a hospital's own server, and runs of it with `--writes private`."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent.core.errors import ChartChangedError
from tests.command import medagent as command
from tests.loopback import ModelServer
from tests.medagent.benchmarks.custom.hospital import (
    FEW,
    TOKEN,
    Answer,
    Hospital,
    changed,
    new,
    opened,
    overall,
    report,
    run,
    tasks,
)
from tests.medagent.benchmarks.custom.ward3 import NOW, SOURCE, resources
from tests.starts import start


@pytest.fixture
def hospital(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hospital]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", TOKEN)
    (tmp_path / "ward3.py").write_text(SOURCE, "utf-8")
    group = {
        "resourceType": "Group",
        "id": "ward",
        "type": "person",
        "actual": True,
        "member": [
            {"entity": {"reference": "Patient/W1"}},
            {"entity": {"reference": "Patient/W2"}, "inactive": True},
            {"entity": {"reference": "Patient/W3"}},
            {"entity": {"reference": "Patient/W12"}},
        ],
    }
    with opened(iter([*map(identified, resources()), group])) as hospital:
        yield hospital


def identified(resource: dict[str, Any]) -> dict[str, Any]:
    """A resource; a Patient with a record number of the hospital, unless it is W5."""
    if resource["resourceType"] != "Patient" or resource["id"] == "W5":
        return resource
    number = resource["id"].replace("W", "77")
    return {**resource, "identifier": [{"system": "urn:x", "value": "0"}, {"system": "urn:mrn", "value": number}]}


def made(hospital: Hospital, *words: object) -> Path:
    ran = new(hospital, *(words or FEW))
    assert ran.code == 0, ran.err
    return Path("ward")


def test_from_a_server_to_a_comparison_of_two_agents(hospital: Hospital) -> None:
    before = hospital.lines
    ran = new(hospital, *FEW, "--concurrency", 2)
    assert ran.code == 0, ran.err
    assert "sodium_again: 4 tasks from 12 of 12 patients\n" in ran.out
    assert "12 of 12 patients" in ran.err
    assert "which only you can read (mode 0600)" in ran.out
    asked = {request.partition("=")[0].partition("?")[0] for request in hospital.charts()}
    assert asked == {"GET /Observation", "GET /MedicationRequest", "GET /Procedure"}
    folder = Path("ward")
    assert sorted(path.name for path in folder.iterdir()) == ["dataset.json", "reads.jsonl", "tasks.jsonl"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))
    stored = {json.loads(line)["search"] for line in (folder / "reads.jsonl").read_text().splitlines()}
    sampled = {task["patient"] for task in tasks(folder)}
    assert {search.partition("patient=")[2].partition("&")[0] for search in stored} == sampled

    document = report(run(hospital, "reference", "--quiet", "--json"))
    assert overall(document) == overall(document, "grounded") == (12, 12)
    nothing, constant = (report(run(hospital, agent, "--quiet", "--json")) for agent in ("nop", "constant"))
    assert overall(nothing)[0] < 12
    assert overall(constant)[0] >= overall(nothing)[0]
    assert all(request.startswith("GET ") for request in hospital.requests)
    assert hospital.lines == before

    first, second = document["folder"], nothing["folder"]
    compared = command("compare", first, second, "--benchmark", "ward3.py")
    assert compared.code == 0, compared.err
    assert "only A right" in compared.out
    shown = command("show", first, "sodium_again_1", "--benchmark", "ward3.py")
    assert "verdict: right" in shown.out
    sent = len(hospital.requests)
    graded = command("grade", first, "--benchmark", "ward3.py", "--json")
    assert overall(json.loads(graded.out)) == (12, 12)
    assert len(hospital.requests) == sent, "what the rules read is in the set"


def test_the_patients_are_those_of_a_file_or_of_a_group(hospital: Hospital) -> None:
    Path("ids.txt").write_text("W3\n\nW4\nW12\n")
    ran = new(hospital, "--per-type", 2, "--patient-ids", "ids.txt", folder="named")
    assert ran.code == 0, ran.err
    assert {task["patient"] for task in tasks(Path("named"))} == {"W3", "W4"}, "W12 is dead"
    Path("ids.txt").write_text("W3\n")
    ran = new(hospital, "--per-type", 2, "--patient-ids", "ids.txt", folder="alone")
    assert ran.code == 0, ran.err
    assert {task["patient"] for task in tasks(Path("alone"))} == {"W3"}
    ran = new(hospital, "--per-type", 2, "--group", "ward", folder="grouped")
    assert ran.code == 0, ran.err
    assert {task["patient"] for task in tasks(Path("grouped"))} == {"W1", "W3"}, "W2 has left the ward, W12 is dead"
    ran = new(hospital, "--per-type", 2, "--patients", 5, folder="first")
    assert ran.code == 0, ran.err
    assert "12 of 12" not in ran.err
    assert {task["patient"] for task in tasks(Path("first"))} <= {"W0", "W1", "W2", "W3", "W4"}


def test_texts_show_the_identifier_of_a_system(hospital: Hospital) -> None:
    ran = new(hospital, *FEW, "--id-system", "urn:mrn")
    assert ran.code == 0, ran.err
    assert "1 patients without an identifier of urn:mrn are left out" in ran.err
    for protocol in ("text", "code"):
        document = report(run(hospital, "reference", "--quiet", "--json", "--protocol", protocol, "--round", protocol))
        assert overall(document) == overall(document, "grounded") == (12, 12)
    rows = (Path(document["folder"]) / "episodes.jsonl").read_text().splitlines()
    prompts = {row["task_id"]: row["transcript"][0]["content"] for row in map(json.loads, rows)}
    for task in tasks(Path("ward")):
        assert task["mrn"] == task["patient"].replace("W", "77")
        assert f"patient {task['mrn']}" in prompts[task["id"]]
        assert task["patient"] not in prompts[task["id"]]


def test_an_item_whose_chart_has_changed_is_not_graded(hospital: Hospital) -> None:
    folder = made(hospital)
    low = next(task for task in tasks(folder) if task["type"] == "sodium_again")
    changed(hospital, low["patient"])
    ran = run(hospital, "reference", "--quiet")
    assert ran.code == 2, "not every item could be graded"
    assert "chart changed; not graded" in ran.out
    done = Path("results/ward3_r1_reference")
    assert "chart changed" in command("show", done, low["id"], "--benchmark", "ward3.py").out
    touched = {task["id"] for task in tasks(folder) if task["patient"] == low["patient"]}
    rows = map(json.loads, (done / "episodes.jsonl").read_text().splitlines())
    statuses = {row["task_id"]: (row["status"], len(row.get("transcript", []))) for row in rows}
    assert statuses.pop(low["id"]) == ("chart_changed", 0), "the agent did not act"
    assert {name for name, (status, _) in statuses.items() if status != "completed"} <= touched


def test_a_chart_that_changes_during_an_episode_is_seen_at_its_end(hospital: Hospital) -> None:
    low = next(task for task in tasks(made(hospital)) if task["type"] == "sodium_again")
    before, messages = len(hospital.requests), list[int]()

    def reply(_: Any) -> str:
        if not messages:
            changed(hospital, low["patient"])
        messages.append(1)
        return "FINISH([1])"

    with ModelServer(reply=reply) as model:
        ran = run(hospital, "text", "--model", "m", "--base-url", model.url, "--ids", low["id"], "--quiet", "--json")
    (row,) = map(json.loads, (Path(report(ran)["folder"]) / "episodes.jsonl").read_text().splitlines())
    assert (row["status"], len(row["transcript"])) == ("chart_changed", 2)
    assert row["error"] == "chart changed: the rule gives another ruling than when the set was made"
    assert len([request for request in hospital.requests[before:] if "patient=" in request]) == 2


def test_an_episode_of_a_program_ends_with_the_same_error(hospital: Hospital) -> None:
    low = next(task for task in tasks(made(hospital)) if task["type"] == "sodium_again")
    options: dict[str, Any] = {"dataset": Path("ward"), "fhir": hospital.url, "send_patient_data": ["here"]}

    async def play() -> None:
        async with medagent.episode(low["id"], benchmark="ward3.py", writes="private", **options) as acting:
            acting.reset()
            changed(hospital, low["patient"])
            await acting.act("FINISH([1])")

    with pytest.raises(ChartChangedError):
        asyncio.run(play())


def test_an_interrupted_command_continues_without_reading_again(hospital: Hospital) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def answer(target: str) -> tuple[int, bytes] | None:
        if target.startswith("/Procedure") and len(hospital.charts()) > 20:
            reached.set()
            go_on.wait(30)
        return None

    hospital.answer = answer
    words = ("data", "new", "ward", "--from", "ward3.py", "--fhir", hospital.url, "--now", NOW, *FEW)
    started = start(*words, "--concurrency", 1)
    assert reached.wait(60)
    started.send_signal(signal.SIGINT)
    go_on.set()
    ended = started.ended(60)
    assert ended.code == 130
    assert "Traceback" not in ended.err
    part = Path("ward/reads.part")
    assert part.stat().st_mode & 0o077 == 0
    before = {json.loads(line)["search"] for line in part.read_text().splitlines()}
    with part.open("a") as file:
        file.write('{"search": "Observation?pat')  # a line that a kill left incomplete
    hospital.answer = lambda _: None
    hospital.requests.clear()
    refused = new(hospital, *FEW, "--now", "2024-06-01T00:00:00Z")
    assert refused.code == 1
    assert "contains a part of a set of another server or time" in refused.err
    ran = new(hospital, *FEW)
    assert ran.code == 0, ran.err
    assert f"continued with {len(before)} searches" in ran.err
    again = {request.removeprefix("GET /").partition("&_count")[0] for request in hospital.charts()}
    assert not again & before
    assert len(again | before) == 12 * 4
    assert overall(report(run(hospital, "reference", "--quiet", "--json"))) == (12, 12)


def test_a_token_that_expires_in_the_middle_is_read_again(hospital: Hospital, monkeypatch: pytest.MonkeyPatch) -> None:
    token = Path("token.txt")
    token.write_text(TOKEN)
    monkeypatch.delenv("MEDAGENT_FHIR_TOKEN")
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN_FILE", str(token.resolve()))

    def expire(target: str) -> tuple[int, bytes] | None:
        if len(hospital.charts()) == 20:
            hospital.tokens = {"second"}
        return None

    hospital.answer = expire
    stopped = new(hospital, *FEW, "--concurrency", 1)
    assert stopped.code == 1
    assert "answers 401: the token is not accepted (any more); renew it" in stopped.err
    assert len(stopped.err.strip().splitlines()[-1:]) == 1
    hospital.requests.clear()
    token.write_text("second")
    ran = new(hospital, *FEW)
    assert ran.code == 0, ran.err
    assert len(hospital.charts()) < 12 * 4

    hospital.requests.clear()

    def renew(target: str) -> tuple[int, bytes] | None:
        if len(hospital.charts()) == 10:
            hospital.tokens = {"third"}
            token.write_text("third")
        return None

    hospital.answer = renew
    assert overall(report(run(hospital, "reference", "--quiet", "--json"))) == (12, 12), "no item was lost"


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_refused_at_the_start_is_to_be_renewed(hospital: Hospital, status: int) -> None:
    made(hospital)
    hospital.answer = lambda _: (status, b"{}")
    for ran in (new(hospital, *FEW, folder="other"), run(hospital, "reference")):
        assert ran.code == 1
        (line,) = ran.err.strip().splitlines()
        assert f"answers {status}: the token is not accepted (any more); renew it" in line


def test_a_token_that_may_write_gets_a_warning(hospital: Hospital, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = urlsafe_b64encode(b'{"scope": "system/*.cruds"}').decode()
    token = f"e30.{claims}.x"
    hospital.tokens = {token}
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", token)
    ran = new(hospital, *FEW)
    assert ran.code == 0, ran.err
    assert "warning: the token's scope allows writes (system/*.cruds)" in ran.err


def with_next(target: str, to: str) -> bytes:
    link = [{"relation": "next", "url": to}]
    return json.dumps({"resourceType": "Bundle", "type": "searchset", "link": link}).encode()


FAULTS: list[tuple[str, Answer, str]] = [
    (
        "loop",
        lambda target: (200, with_next(target, f"/fhir{target}")) if "patient=" in target else None,
        "lead back to an earlier page",
    ),
    (
        "html",
        lambda target: (200, b"<html>Log in</html>") if "patient=" in target else None,
        "does not answer with FHIR",
    ),
    ("html at once", lambda _: (200, b"<html>Log in</html>"), "/metadata does not answer with FHIR as JSON"),
    (
        "r5",
        lambda target: (
            (200, b'{"resourceType": "CapabilityStatement", "fhirVersion": "5.0.0"}') if "metadata" in target else None
        ),
        "needs 4.0",
    ),
    ("error", lambda target: (404, b"{}") if "patient=" in target else None, "a search of Observation with status 404"),
    (
        "outside",
        lambda target: (200, with_next(target, "/other")) if "patient=" in target else None,
        "outside the base",
    ),
    (
        "patients",
        lambda target: (403, b"{}") if "/Patient" in target else None,
        "answers 403: the token is not accepted",
    ),
    ("group", lambda target: (500, b"{}") if "/Group" in target else None, "a read of the Group with status 500"),
]


@pytest.mark.parametrize(("name", "answer", "problem"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_server_with_a_fault_gets_one_line_and_nothing_is_lost(
    hospital: Hospital, name: str, answer: Answer, problem: str
) -> None:
    hospital.answer = answer
    words = (*FEW, "--group", "ward") if name == "group" else FEW
    ran = new(hospital, *words)
    assert ran.code == 1
    assert problem in ran.err
    (line,) = ran.err.strip().splitlines()
    assert line.startswith("medagent: ")
    assert "W1" not in line, "an error does not name a patient"
    hospital.answer = lambda _: None
    assert new(hospital, *FEW).code == 0


def test_a_server_that_ignores_count_loses_nothing(hospital: Hospital) -> None:
    before = new(hospital, *FEW, "--seed", "s", folder="before")
    assert before.code == 0, before.err
    pages: dict[str, bytes] = {}

    def one_by_one(target: str) -> tuple[int, bytes] | None:
        """A page for each entry, whatever `_count` says."""
        kind, _, query = target.partition("?")
        if "_count" not in query:
            return (200, pages[target]) if target in pages else None
        entries = json.loads(hospital.server_says(kind, query)).get("entry", [])
        for place, entry in enumerate(entries):
            following = [{"relation": "next", "url": f"{hospital.url}?page={len(pages) + 1}"}]
            link = following if place + 1 < len(entries) else []
            page = {"resourceType": "Bundle", "type": "searchset", "link": link, "entry": [entry]}
            pages[f"?page={len(pages)}"] = json.dumps(page).encode()
        return (200, pages[f"?page={len(pages) - len(entries)}"]) if entries else None

    hospital.answer = one_by_one
    after = new(hospital, *FEW, "--seed", "s", folder="after")
    assert after.code == 0, after.err
    assert before.out.replace("before", "after").splitlines()[:-3] == after.out.splitlines()[:-3]
    assert tasks(Path("before")) == tasks(Path("after"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--group", "none"), "--group none: the server does not have this Group"),
        (("--group", "a/b"), "--group a/b: is not the id of a Group"),
        (("--patient-ids", "ids.txt"), "ids.txt:2: the server does not have a Patient with this id"),
        (("--patient-ids", "bad.txt"), "bad.txt:1: is not the id of a Patient"),
        (("--patient-ids", "empty.txt"), "empty.txt: contains no ids"),
        (("--patient-ids", "ids.txt", "--group", "ward"), "--patient-ids and --group exclude each other"),
        (("--patient-ids", "ids.txt", "--patients", "5"), "--patients and --patient-ids exclude each other"),
        (("--group", "ward", "--patients", "5"), "--patients and --group exclude each other"),
        (("--patients", "0"), "--patients: is below 1"),
        (("--patient-ids", "missing.txt"), "missing.txt"),
        (("--id-system", "urn:other"), "none of 12 patients shows an identifier of this system"),
        (("--now", "yesterday"), "--now"),
        (("--ehr", "x.ndjson"), "--ehr and --fhir exclude each other"),
    ],
)
def test_options_that_do_not_fit_get_one_line(hospital: Hospital, words: tuple[str, ...], problem: str) -> None:
    Path("ids.txt").write_text("W1\nunknown77\n")
    Path("bad.txt").write_text("Mr Kis\n")
    Path("empty.txt").write_text("\n")
    ran = new(hospital, *FEW, *words)
    assert ran.code == 1
    assert problem in ran.err
    assert "Traceback" not in ran.err
    assert "unknown77" not in ran.err
    assert "Kis" not in ran.err


def test_options_of_a_server_need_one(hospital: Hospital) -> None:
    for words in (("--group", "ward"), ("--now", NOW), ("--id-system", "x")):
        ran = command("data", "new", "ward", "--from", "ward3.py", *words)
        assert ran.code == 1
        assert f"{words[0]} needs --fhir" in ran.err
    assert "--fhir needs --from" in command("data", "new", "ward", "--fhir", hospital.url).err


def test_a_set_of_a_hospital_is_run_only_with_private_writes(hospital: Hospital) -> None:
    made(hospital)
    for words in (
        ("run", "ward3.py", "--dataset", "ward", "--agent", "nop"),
        ("run", "ward3.py", "--dataset", "ward", "--agent", "nop", "--fhir", hospital.url),
        ("run", "ward3.py", "--dataset", "ward", "--agent", "nop", "--fhir", hospital.url, "--writes", "execute"),
        ("export", "harbor", "ward3.py", "out", "--dataset", "ward"),
        ("data", "twins", "ward", "--from", "ward3.py"),
    ):
        ran = command(*words)
        assert ran.code == 1, words
        assert "was made from a hospital's own server; run it with --fhir URL --writes private" in ran.err
    assert not Path("out").exists()
    assert "follows from a hospital's server" in command("data", "verify", "ward", "--from", "ward3.py").err
    assert "is not empty" in new(hospital).err


def test_a_corrected_rule_that_reads_more_needs_a_new_set(hospital: Hospital) -> None:
    made(hospital)
    first = report(run(hospital, "reference", "--quiet", "--json"))["folder"]
    code = Path("ward3.py")
    code.write_text(code.read_text().replace("last >= 130", "last >= 120"))
    graded = json.loads(command("grade", first, "--benchmark", "ward3.py", "--json").out)
    assert overall(graded)[0] < 12
    code.write_text(code.read_text().replace('Lab("2951-2"', 'Lab("other"'))
    ran = run(hospital, "reference", "--quiet", "--round", "again")
    assert ran.code == 1
    assert (
        "ward/reads.jsonl: does not contain the result of a search of Observation: the rule or the tasks have changed"
        in ran.err
    )


def test_a_folder_in_which_nothing_was_read_takes_another_server(
    hospital: Hospital, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", "wrong")
    assert new(hospital, *FEW).code == 1
    ran = command("run", "ward3.py", "--dataset", "ward", "--agent", "nop")
    assert ran.err == "medagent: ward: is not finished; run its `medagent data new` again to continue it\n"
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", TOKEN)
    assert new(hospital, *FEW, "--now", "2024-06-01T00:00:00Z").code == 0
