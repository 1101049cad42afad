"""A hospital's data stay: charts whose names, ids, dates and values are unique are run, and nothing has one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent.core.errors import UserError
from medagent.integrations.inspect.source import source_of
from tests.command import Ran
from tests.command import medagent as command
from tests.loopback import Call, ModelServer, status
from tests.medagent.benchmarks.custom.hospital import TOKEN, Hospital, changed, new, opened, run
from tests.medagent.benchmarks.custom.ward3 import SOURCE
from tests.medagent.reports.test_report import unpacked

MARKED = "Qzx"
"""A part of all names, ids and texts of the charts."""
VALUES = ("124.7531", "144.7531", "1911-09-17", "2024-05-01T08:13:57")
AGENT = """
import medagent

class Mine(medagent.Agent):
    async def play(self, task, prompt):
        chart = yield f"GET http://localhost:8080/fhir/Observation?patient={task.mrn}"
        raise ValueError(chart)
"""


def charts() -> Iterator[dict[str, Any]]:
    """Four patients, two of them with a low sodium."""
    for number in range(4):
        mrn = f"{MARKED}{number}"
        yield {"resourceType": "Patient", "id": mrn, "birthDate": VALUES[2], "name": [{"family": f"{MARKED}ovics"}]}
        yield {
            "resourceType": "Observation",
            "id": f"o{mrn}",
            "status": "final",
            "code": {"coding": [{"system": "http://loinc.org", "code": "2951-2"}]},
            "effectiveDateTime": f"{VALUES[3]}+00:00",
            "valueQuantity": {"value": float(VALUES[1 - number % 2]), "unit": "mmol/L"},
            "note": [{"text": f"{MARKED}note"}],
            "subject": {"reference": f"Patient/{mrn}"},
        }


@pytest.fixture
def hospital(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hospital]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", TOKEN)
    Path("ward3.py").write_text(SOURCE, "utf-8")
    Path("mine.py").write_text(AGENT)
    with opened(charts()) as hospital:
        yield hospital


def marks(*texts: str) -> list[str]:
    return [mark for mark in (MARKED, *VALUES) if any(mark in text for text in texts)]


def unmarked(*commands: Ran) -> None:
    """Nothing that the commands printed is of a chart."""
    assert [marks(result.out, result.err) for result in commands] == [[]] * len(commands)


def private(*folders: str | Path) -> None:
    """Only the owner can read the folders' files."""
    files = [path for folder in folders for path in Path(folder).rglob("*") if path.is_file()]
    assert [path for path in files if path.stat().st_mode & 0o077] == []


def made(hospital: Hospital) -> None:
    ran = new(hospital, "--per-type", 2)
    assert ran.code == 0, ran.err
    unmarked(ran)
    stored = Path("ward/reads.jsonl").read_text()
    assert marks(stored) == [MARKED, VALUES[0], VALUES[1], VALUES[3]]


def quoting(call: dict[str, Any]) -> str:
    """A model's reply: a search of the patient's readings, then what was read as the answer."""
    said = [message["content"] for message in call["messages"]]
    if len(said) == 1:
        mrn = said[0].partition(f"patient {MARKED}")[2][:1]
        return f"GET http://localhost:8080/fhir/Observation?patient={MARKED}{mrn}"
    return f"FINISH({json.dumps([said[-1]])})"


def views(*folders: str) -> list[Ran]:
    """The commands that write or print a finished run for others."""
    first, code = folders[0], ("--benchmark", "ward3.py")
    return [
        command("report", *folders, *code, "-o", "page.html"),
        command("export", "jsonl", first, "rows.jsonl", *code),
        command("export", "csv", first, "groups.csv", *code),
        command("compare", first, folders[-1], *code, "--junit", "junit.xml"),
        command("compare", first, folders[-1], *code, "--json", "--full"),
        command("compare", first, folders[-1], *code, "--markdown"),
        command("grade", first, *code, "--json"),
        command("leaderboard", *folders, *code),
    ]


def written() -> list[str]:
    """What `views` wrote."""
    files = [path for name in ("rows.jsonl", "groups.csv", "junit.xml") if (path := Path(name)).is_file()]
    texts = [path.read_text() for path in files]
    return [json.dumps(unpacked(Path("page.html"))), *texts]


def test_what_is_written_or_printed_has_scores_only(hospital: Hospital) -> None:
    made(hospital)
    with ModelServer(reply=quoting) as model:
        words = ("--model", "m", "--base-url", model.url, "--cache", "cache")
        ran = [
            run(hospital, "text", *words, "--round", "one", "--json"),
            run(hospital, "nop", "--round", "one", "--json"),
            run(hospital, "reference", "--round", "one", "--report", "live.html"),
        ]
        assert marks(json.dumps([call.body for call in model.calls])) == [MARKED, VALUES[0], VALUES[1], VALUES[3]]
    assert [result.code for result in ran] == [0] * 3, ran
    unmarked(*ran)
    folders = [f"results/ward3_one_{name}" for name in ("m", "nop", "reference")]
    assert marks(Path(folders[0], "episodes.jsonl").read_text()) == [MARKED, VALUES[0], VALUES[1], VALUES[3]]
    assert marks(json.dumps(unpacked(Path("live.html")))) == []
    seen = views(*folders)
    assert [result.code for result in seen] == [0] * len(seen), seen
    unmarked(*seen)
    assert marks(*written()) == []
    private("ward", "cache", *folders)


class Reads:
    """An agent that sends some GETs, and answers without using them."""

    def __init__(self, answer: float, *queries: str) -> None:
        self.answer, self.queries = answer, queries

    def __call__(self, call: dict[str, Any]) -> str:
        said = [message["content"] for message in call["messages"]]
        patient = MARKED + said[0].partition(f"patient {MARKED}")[2][:1]
        done = (len(said) - 1) // 2
        if done < len(self.queries):
            return f"GET http://localhost:8080/fhir/Observation?patient={patient}&{self.queries[done]}"
        return f"FINISH([{self.answer}])"


NOTHING_MORE = "no search could have shown one more of the data that decides"
KINDS = [
    (Reads(144.7531), "read nothing", "never read the data that decides"),
    (Reads(144.7531, "code=2951-2"), "", ""),
    (Reads(144.7531, "date=lt2020-01-01"), NOTHING_MORE, "never read the data that decides"),
    (Reads(144.7531, "code=2951-2", "code=1"), "", ""),
    (Reads(-1, "code=1&_tag=none"), "", "never read the data that decides"),
]


@pytest.mark.parametrize(("model", "reading", "reason"), KINDS)
def test_what_was_not_read_is_stored_and_shown_as_its_kind(
    hospital: Hospital, model: Reads, reading: str, reason: str
) -> None:
    made(hospital)
    with ModelServer(reply=model) as served:
        ran = run(hospital, "text", "--model", "m", "--base-url", served.url, "--round", "one", "--json")
    unmarked(ran)
    scores = [json.loads(line) for line in Path("results/ward3_one_m/scores.jsonl").read_text().splitlines()]
    readings = {score["score"]["reading"] for score in scores} - {""}
    assert readings == {reading, "unknown"} - {""}, "no example of a colonoscopy is known"
    reasons = [score["score"]["reason"] for score in scores if score["score"]["kind"] == "reading-missed"]
    assert all(words.startswith(reason or "none") for words in reasons)
    Path("results/ward3_one_m/scores.jsonl").unlink()
    again = command("grade", "results/ward3_one_m", "--benchmark", "ward3.py", "--full")
    assert again.code == 0
    unmarked(again)


def test_errors_have_no_texts_of_charts(hospital: Hospital) -> None:
    made(hospital)
    with ModelServer(faults=lambda call: status(400, message=f"cannot answer {said(call)[-200:]}")) as model:
        ran = [run(hospital, "text", "--model", "m", "--base-url", model.url, "--round", "one")]
    ran.append(run(hospital, "mine.py:Mine", "--send-patient-data", "nowhere", "--round", "one"))
    for number in range(4):
        changed(hospital, f"{MARKED}{number}")
    ran.append(run(hospital, "reference", "--round", "one"))
    hospital.answer = lambda target: (500, f"{MARKED} {VALUES[0]}".encode()) if "patient=" in target else None
    ran += [run(hospital, "reference", "--round", "broken"), run(hospital, "reference", "--round", "other", "--json")]
    ran.append(new(hospital, "--per-type", 2, folder="broken"))
    assert [result.code for result in ran] == [2, 2, 2, 2, 2, 1], ran
    unmarked(*ran)
    folders = [f"results/ward3_{name}" for name in ("one_m", "one_Mine", "one_reference", "broken_reference")]
    private("ward", "broken", *folders)
    assert marks(Path(folders[1], "episodes.jsonl").read_text()) == [MARKED, VALUES[0], VALUES[1], VALUES[3]]
    shown = command("show", folders[1], "sodium_again_1", "--benchmark", "ward3.py")
    assert "ValueError" in shown.out
    assert MARKED in shown.out
    for folder in folders:
        unmarked(*views(folder))
        assert marks(*written()) == []


def test_a_run_that_stops_says_why_without_texts_of_charts(hospital: Hospital) -> None:
    made(hospital)
    ran = run(hospital, "mine.py:Mine", "--send-patient-data", "nowhere", "--trials", 3)
    assert ran.code == 2
    assert "the first 10 units failed in the same way: agent_error: ValueError" in ran.err
    unmarked(ran)
    with ModelServer(faults=lambda call: status(400, message=f"cannot answer {said(call)[-200:]}")) as model:
        ran = run(hospital, "text", "--model", "m", "--base-url", model.url, "--trials", 6)
    assert ran.code == 1
    assert "answered 400 (its text is not shown, as it may quote a chart) (" in ran.err
    assert "requests in a row were refused" in ran.err
    unmarked(ran)


def said(call: Call) -> str:
    """All that was sent to a model."""
    return json.dumps(call.messages)


def test_a_rule_at_fault_is_named_without_what_it_read(hospital: Hospital) -> None:
    made(hospital)
    first = run(hospital, "reference", "--round", "one")
    assert first.code == 0, first.err
    code = Path("ward3.py")
    line = "        if last >= 130:"
    code.write_text(code.read_text().replace(line, f"        {{}}[last.number]\n{line}"))
    ran = [
        new(hospital, "--per-type", 2, folder="other"),
        run(hospital, "reference", "--round", "other"),
        command("grade", "results/ward3_one_reference", "--benchmark", "ward3.py"),
    ]
    unmarked(*ran)
    for result in ran:
        assert result.code == 1
        assert "the rule of sodium_again failed: KeyError (its text is not shown" in result.err


def test_forms_with_conversations_need_the_users_word(hospital: Hospital) -> None:
    made(hospital)
    assert run(hospital, "reference", "--round", "one").code == 0
    for form in ("official", "atif", "inspect", "otel", "mlflow", "every-eval-ever"):
        refused = command("export", form, "results/ward3_one_reference", "out")
        assert refused.code == 1, form
        assert "--with-patient-data" in refused.err
        unmarked(refused)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--model", "m", "--base-url", "http://llm.example/v1"), "--base-url is at http://llm.example/v1"),
        (("--model", "m", "--base-url", "MODEL", "--cluster", "tcp://head.example:8786"), "--cluster is at tcp://head"),
        (("--agent", "mine.py:Mine"), "Mine, code of your own, may send patient data anywhere"),
    ],
)
def test_nothing_is_sent_elsewhere(hospital: Hospital, words: tuple[str, ...], problem: str) -> None:
    made(hospital)
    sent = len(hospital.requests)
    with ModelServer() as model:
        agent = () if "--agent" in words else ("--agent", "text")
        options = [word.replace("MODEL", model.url) for word in words]
        server = ("--fhir", hospital.url, "--writes", "private")
        ran = command("run", "ward3.py", "--dataset", "ward", *server, *agent, *options)
        assert model.calls == []
    assert ran.code == 1
    assert problem in ran.err
    assert "--send-patient-data" in ran.err
    assert len(hospital.requests) == sent


def test_a_proxy_is_an_address_too(hospital: Hospital, monkeypatch: pytest.MonkeyPatch) -> None:
    made(hospital)
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ModelServer() as model:
        named = model.url.replace("127.0.0.1", "localhost")
        ran = run(hospital, "text", "--model", "m", "--base-url", named)
        assert model.calls == []
        assert ran.code == 1
        assert "proxy.example" in ran.err
        assert "--send-patient-data proxy.example" in ran.err
        assert run(hospital, "text", "--model", "m", "--base-url", model.url).code == 0


def test_other_tools_do_not_run_a_hospitals_set(hospital: Hospital) -> None:
    made(hospital)
    options = {"dataset": "ward", "fhir": hospital.url, "writes": "private", "send_patient_data": ["x"]}
    with pytest.raises(UserError, match="Inspect's logs would have patient data"):
        source_of("ward3.py", options).plan()
    over_http: list[dict[str, Any]] = [{}, {"writes": "private"}, {"writes": "private", "fhir": hospital.url}]
    for more in over_http:
        with pytest.raises(UserError), medagent.serve_episodes(benchmark="ward3.py", dataset="ward", **more) as served:
            served.open("sodium_again_1")
