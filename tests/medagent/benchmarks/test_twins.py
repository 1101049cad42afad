"""Twins: the sets that `medagent data twins` makes, their charts, and their scores."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from medagent import Score, episode
from medagent.agents.base import Agent
from medagent.benchmarks.clinical.twins import open_hospital
from medagent.benchmarks.medagentbench.tasks.dataset import dataset_folder, load_dataset
from medagent.core.writing import file_digest
from medagent.fhir_data.embedded import bundled_file
from medagent.rl import UngradedError, pair_reward
from refsol.clinical.chart import ref
from refsol.clinical.pairs import Hospital
from refsol.resources import codes, subject_id
from tests.command import medagent
from tests.medagent.benchmarks.custom.ward3 import write
from tests.once import made_once

PER_TYPE = 2


class Twins(NamedTuple):
    """A set of twins, and the words of a command that name its benchmark."""

    folder: Path
    words: tuple[str, ...]
    told: str

    @property
    def tasks(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "tasks.jsonl").read_text("utf-8").splitlines()]

    def run(self, agent: object, *more: object) -> dict[str, Any]:
        return reported(self, agent, *more)


@cache
def reported(twins: Twins, agent: object, *more: object) -> dict[str, Any]:
    """The report of a run, which several tests read. Each run has a folder of its own."""
    ran = medagent(
        *("run", *twins.words, "--dataset", twins.folder, "--agent", agent, "--quiet", "--json"),
        *("--results-dir", tempfile.mkdtemp(prefix="results-", dir=twins.folder.parent), *more),
    )
    assert ran.code == 0, ran.err
    report: dict[str, Any] = json.loads(ran.out)
    return report


def rates(report: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """By line of the table, how many are right of how many."""
    lines = [line for section in report["table"] for line in section["lines"]]
    return {line["name"]: (line["counts"].get("right", 0), line["n"]) for line in lines}


def few(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A few tasks of each type."""
    seen: Counter[str] = Counter()
    chosen = []
    for task in tasks:
        seen[task["id"].partition("_")[0]] += 1
        if seen[task["id"].partition("_")[0]] <= PER_TYPE:
            chosen.append(task)
    return chosen


def few_of(source: Path, folder: Path) -> Path:
    """A set of a few tasks over the bundled hospital, in a folder with a manifest like that of the bundled set."""
    folder.mkdir()
    tasks = few([json.loads(line) for line in (source / "tasks.jsonl").read_text("utf-8").splitlines()])
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks), "utf-8")
    (folder / "reads.jsonl").write_bytes((source / "reads.jsonl").read_bytes())
    manifest = json.loads((source / "dataset.json").read_text("utf-8"))
    manifest["files"] = {name: file_digest(folder / name) for name in ("tasks.jsonl", "reads.jsonl")}
    manifest.pop("parts", None)
    (folder / "dataset.json").write_text(json.dumps(manifest), "utf-8")
    return folder


def made(folder: Path, words: tuple[object, ...], run: tuple[object, ...]) -> Twins:
    ran = medagent("data", "twins", *words, "--out", folder)
    assert ran.code == 0, ran.err
    done, _, total = ran.err.splitlines()[-1].partition(" items")[0].partition(" of ")
    assert done == total, ran.err
    return Twins(folder, tuple(map(str, run)), ran.out)


def shared(factory: pytest.TempPathFactory, name: str, source: Callable[[Path], Path], *options: str) -> Twins:
    """Twins of MedAgentBench that all workers read; `source` writes into a folder of what they are made."""

    def make(folder: Path) -> None:
        twins = made(folder / "twins", (source(folder), *options), ())
        (folder / "told.txt").write_text(twins.told, "utf-8")

    folder = made_once(factory, name, make)
    return Twins(folder / "twins", (), (folder / "told.txt").read_text("utf-8"))


@pytest.fixture(scope="session")
def mab(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    """Twins of a set over the bundled hospital, which its folder does not contain."""
    twins = shared(tmp_path_factory, "few-twins", few_of_bundled)
    assert not (twins.folder / "hospital.ndjson").exists()
    return twins


def few_of_bundled(folder: Path) -> Path:
    return few_of(dataset_folder("synthetic"), folder / "few")


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    """Twins of own task types over imported patients."""
    folder = tmp_path_factory.mktemp("ward")
    code, patients = write(folder)
    return made(folder / "twins", ("--from", code, "--ehr", patients), (code,))


@pytest.fixture(params=["mab", "ward"])
def twins(request: pytest.FixtureRequest) -> Twins:
    chosen: Twins = request.getfixturevalue(request.param)
    return chosen


HEADLINE, BOTH = "right on both, and the data read", "right on both"


def test_the_reference_agent_gets_all_pairs(twins: Twins) -> None:
    report = twins.run("reference")
    pairs = len(twins.tasks) // 2
    assert rates(report)[HEADLINE] == rates(report)[BOTH] == (pairs, pairs)
    assert rates(report)["single items"] == (2 * pairs, 2 * pairs)
    assert report["overall"]["n"] == pairs
    assert report["twins"]["right_and_read"]["right"] == pairs


@pytest.mark.parametrize("agent", ["nop", "constant"])
def test_an_agent_that_reads_nothing_gets_no_pair(twins: Twins, agent: str) -> None:
    table = rates(twins.run(agent))
    pairs = len(twins.tasks) // 2
    for name in (HEADLINE, BOTH, "baseline nop", "baseline constant", "baseline blind"):
        assert table[name] == (0, pairs), name


@pytest.mark.long
def test_psb_300_has_twins(tmp_path: Path) -> None:
    from medagent.benchmarks.psb300.tasks import folder_of

    source = few_of(folder_of("synthetic"), tmp_path / "few")
    twins = made(tmp_path / "twins", (source,), ("psb-300",))
    pairs = len(twins.tasks) // 2
    assert pairs >= 7 * PER_TYPE, twins.told
    assert rates(twins.run("reference"))[HEADLINE] == (pairs, pairs)
    assert rates(twins.run("constant"))[BOTH] == (0, pairs)


def test_the_command_counts_pairs_and_says_why_items_are_left_out(mab: Twins) -> None:
    lines = mab.told.splitlines()
    assert f"task7: {PER_TYPE} pairs, 0 items left out" in lines
    assert f"task3: 0 pairs, {PER_TYPE} items left out ({PER_TYPE}: its ruling rests on no reading)" in lines
    assert lines[-2] == f"{mab.folder}: {len(mab.tasks) // 2} pairs, {len(mab.tasks)} items"


def test_an_unknown_set_is_refused_with_all_names(tmp_path: Path) -> None:
    ran = medagent("data", "twins", "no-such-set", "--out", tmp_path / "twins")
    assert ran.code == 1
    names = "synthetic, official, published, medagentbench, fhir-agentbench, psb-300"
    assert (
        ran.err
        == f"medagent: unknown data set 'no-such-set'; known: {names}, and a folder, task file or question file\n"
    )
    assert not (tmp_path / "twins").exists()


def test_twins_of_twins_are_refused(twins: Twins, tmp_path: Path) -> None:
    words = ("--from", *twins.words) if twins.words else ()
    ran = medagent("data", "twins", twins.folder, *words, "--out", tmp_path / "again")
    assert (ran.code, ran.err) == (
        1,
        "medagent: the set contains twins or injected instructions; make twins of a set without them\n",
    )
    assert not list((tmp_path / "again").iterdir())


def test_twins_have_the_same_words(mab: Twins) -> None:
    words: dict[str, set[tuple[str, ...]]] = {}
    for task in mab.tasks:
        seen = words.setdefault(task["twin"], set())
        seen.add((task["text"], task["context"], task.get("patient", "")))
    assert all(len(wordings) == 1 for wordings in words.values())


@cache
def bundled_hospital() -> Hospital:
    return open_hospital(bundled_file().path)


def test_no_changed_chart_has_a_test_twice_at_one_time(mab: Twins) -> None:
    hospital = bundled_hospital()

    def events(resources: list[Any]) -> Counter[tuple[Any, ...]]:
        timed = [(resource, resource.get("effectiveDateTime")) for resource in resources]
        return Counter((time, code) for resource, time in timed if time for code in codes(resource))

    for task in mab.tasks:
        chart = {ref(resource): resource for resource in hospital.of.get(task.get("patient", ""), [])}
        before = events([resource for resource in chart.values() if resource["resourceType"] == "Observation"])
        for change in task.get("change", []):
            if isinstance(change, str):
                chart.pop(change, None)
            else:
                chart[ref(change)] = change
        after = events([resource for resource in chart.values() if resource["resourceType"] == "Observation"])
        assert [event for event, count in after.items() if count > max(1, before[event])] == []


def test_neither_id_nor_place_tells_which_twin_is_changed(mab: Twins) -> None:
    first = [bool(task.get("change")) for place, task in enumerate(mab.tasks) if place < _other(mab.tasks, place)]
    assert 0.2 < sum(first) / len(first) < 0.8
    kinds: dict[str, list[int]] = {task["id"].partition("_")[0]: [] for task in mab.tasks}
    for task in mab.tasks:
        kinds[task["id"].partition("_")[0]].append(int(task["id"].partition("_")[2]))
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in kinds.values())


def _other(tasks: list[dict[str, Any]], place: int) -> int:
    return next(n for n, task in enumerate(tasks) if n != place and task["twin"] == tasks[place]["twin"])


def test_who_is_found_in_one_chart_is_not_in_the_other(mab: Twins) -> None:
    answers: dict[str, list[str]] = {}
    for task in mab.tasks:
        if task["id"].startswith("task1_"):
            answers.setdefault(task["twin"], []).append(task["fields"]["sol"][0])
    assert answers
    assert all(len(set(given)) == 2 and "Patient not found" in given for given in answers.values())


class Guess(Agent):
    """Reads nothing, and orders an HbA1c or does nothing: one of the two branches of task10."""

    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        if self.orders(task):
            patient = re.search(r"\bS\d{7}\b", task.instruction)
            assert patient is not None
            yield ORDER.replace("{mrn}", patient[0])
        yield "FINISH([])"

    def orders(self, task: Any) -> bool:
        raise NotImplementedError


ORDER = "POST http://localhost:8080/fhir/ServiceRequest\n" + json.dumps(
    {
        "resourceType": "ServiceRequest",
        "code": {"coding": [{"system": "http://loinc.org", "code": "4548-4"}]},
        "authoredOn": "2023-11-13T10:15:00+00:00",
        "status": "active",
        "intent": "order",
        "priority": "stat",
        "subject": {"reference": "Patient/{mrn}"},
    }
)
_COIN = random.Random(1)
_SEEN: set[str] = set()


class Coin(Guess):
    """Flips a coin."""

    def orders(self, task: Any) -> bool:
        return _COIN.random() < 0.5


class Hash(Guess):
    """Decides by the id of the item."""

    def orders(self, task: Any) -> bool:
        return hashlib.sha256(task.id.encode()).digest()[0] % 2 == 0


class Memory(Guess):
    """Remembers each text, and does the other thing the second time."""

    def orders(self, task: Any) -> bool:
        seen = task.instruction in _SEEN
        _SEEN.add(task.instruction)
        return seen


@pytest.fixture(scope="session")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    """Twins of all tasks of a type with two branches."""

    def tasks_of_two_branches(folder: Path) -> Path:
        tasks = [task.published for task in load_dataset("synthetic", "v2").tasks if task.type == "task10"]
        (folder / "few.json").write_text(json.dumps(tasks), "utf-8")
        return folder / "few.json"

    return shared(tmp_path_factory, "branches", tasks_of_two_branches)


@pytest.mark.parametrize(("agent", "most"), [(Coin, 0.25), (Hash, 0.25), (Memory, 0.5)])
def test_who_guesses_gets_nothing_in_the_headline(branches: Twins, agent: type[Agent], most: float) -> None:
    _SEEN.clear()
    table = rates(branches.run(f"{__name__}:{agent.__name__}", "--concurrency", 1))
    pairs = len(branches.tasks) // 2
    deviation = 3 * (most * (1 - most) * pairs) ** 0.5
    assert table[BOTH][0] <= most * pairs + deviation
    assert table[HEADLINE] == (0, pairs)


def test_a_moved_reading_of_a_panel_is_in_another_panel(branches: Twins) -> None:
    hospital = bundled_hospital()
    alone = []
    for change in chain.from_iterable(task.get("change") or () for task in branches.tasks):
        before = isinstance(change, dict) and hospital.by_ref.get(ref(change))
        if before and before.get("effectiveDateTime") != change.get("effectiveDateTime"):
            others = [resource for resource in hospital.of[subject_id(change) or ""] if ref(resource) != ref(change)]
            times = [
                resource.get("effectiveDateTime") for resource in others if resource["resourceType"] == "Observation"
            ]
            alone.append(tuple(reading["effectiveDateTime"] not in times for reading in (before, change)))
    assert (False, False) in alone
    assert (False, True) not in alone


def test_selections_keep_pairs_together(mab: Twins) -> None:
    by_id = {task["id"]: task["twin"] for task in mab.tasks}
    for words in (("--limit", 6), ("--per-type", 2), ("--ids", "task5_1")):
        chosen = Counter(by_id[item["item"]] for item in mab.run("nop", *words)["items"])
        assert chosen
        assert set(chosen.values()) == {2}, words
    assert len(mab.run("nop", "--limit", 6)["items"]) == 6


class FailsOnce(Agent):
    """Fails on one item, until the environment allows it; writes down which items it plays."""

    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        (Path(os.environ["PLAYED"]) / task.id).touch()
        if task.id == os.environ["FAILS"]:
            raise ValueError("not yet")
        yield "FINISH([])"


def test_retry_repeats_whole_pairs(mab: Twins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = mab.tasks[0]
    played = tmp_path / "played"
    played.mkdir()
    monkeypatch.setenv("PLAYED", str(played))
    monkeypatch.setenv("FAILS", failing["id"])
    agent = f"{__name__}:FailsOnce"
    words = ("run", "--dataset", mab.folder, "--agent", agent, "--limit", 200, "--results-dir", tmp_path, "--quiet")
    medagent(*words)
    monkeypatch.setenv("FAILS", "")
    for file in played.iterdir():
        file.unlink()
    assert medagent(*words, "--retry", "agent_error").code == 0
    assert {file.name for file in played.iterdir()} == {
        task["id"] for task in mab.tasks if task["twin"] == failing["twin"]
    }


def test_trial_n_is_paired_with_trial_n(ward: Twins) -> None:
    report = ward.run("reference", "--trials", 2)
    pairs = len(ward.tasks) // 2
    assert rates(report)[HEADLINE] == (2 * pairs, 2 * pairs)


def test_incomplete_pairs_are_counted_and_not_scored(mab: Twins) -> None:
    report = mab.run("reference", "--limit", 4)
    folder = Path(report["folder"])
    journal = folder / "episodes.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    ran = medagent("grade", folder)
    assert "Incomplete pairs, which do not count: 1 of 2." in ran.out
    assert "2 of 2" not in ran.out


def test_comparisons_and_boards_count_pairs(mab: Twins) -> None:
    pairs = len(mab.tasks) // 2
    folders = [Path(mab.run(agent)["folder"]) for agent in ("reference", "nop")]
    compared = json.loads(medagent("compare", *folders, "--json").out)
    assert len(compared["lost"]) == pairs
    told = medagent("compare", *folders).out
    assert re.search(rf"With {pairs} pairs( of \d+ patients)? a difference under", told)
    assert "items" not in told
    assert f"{pairs}" in medagent("leaderboard", *folders).out
    assert f"Pairs that are {HEADLINE}: {pairs} of {pairs}" in medagent("show", folders[0]).out


def test_a_results_file_is_graded_by_each_chart(mab: Twins) -> None:
    folder = Path(mab.run("reference")["folder"])
    pairs = len(mab.tasks) // 2
    for rules in ("official", "fair", "state"):
        ran = medagent("grade", folder / "results.json", "--dataset", mab.folder, "--rules", rules, "--json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["twins"]["right_on_both"]["right"] == pairs


def test_the_official_grader_is_not_asked_about_twins(mab: Twins, tmp_path: Path) -> None:
    (tmp_path / "refsol.py").write_text("def task1(*_):\n    return True\n")
    folder = Path(mab.run("reference")["folder"])
    ran = medagent("grade", folder, "--official", tmp_path / "refsol.py")
    assert (ran.code, ran.err.count("\n"), "does not know twins" in ran.err) == (1, 1, True)


def test_each_twin_is_exported_with_its_own_chart(mab: Twins, tmp_path: Path) -> None:
    pair = {task["id"]: task for task in mab.tasks if task["twin"] == "task5_twin1"}
    ran = medagent("export", "harbor", tmp_path / "out", "--dataset", mab.folder, "--ids", next(iter(pair)))
    assert ran.code == 0, ran.err
    folders = sorted(path for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert [folder.name for folder in folders] == sorted(pair)
    for folder in folders:
        change = json.loads((folder / "environment" / "change.json").read_text("utf-8"))
        assert change == {"change": pair[folder.name].get("change", []), "chart": ""}
        with gzip.open(folder / "environment" / "patients.ndjson.gz", "rt") as patients:
            assert sum(1 for _ in patients) > 60_000
    facts = [(folder / "tests" / "reads.jsonl").read_text("utf-8") for folder in folders]
    assert facts[0] != facts[1]


def test_a_pack_is_checked_by_each_chart(mab: Twins, tmp_path: Path) -> None:
    folder = Path(mab.run("reference")["folder"])
    pack = tmp_path / "pack.tar.gz"
    assert medagent("submit", "pack", folder, "--out", pack).code == 0
    checked = medagent("submit", "check", pack, "--dataset", mab.folder)
    assert checked.code == 0, checked.out + checked.err


def test_the_reward_of_a_pair_needs_both_and_the_data(mab: Twins, tmp_path: Path) -> None:
    half, other_half = (task for task in mab.tasks if task["twin"] == "task5_twin1")
    folder = Path(mab.run("reference", "--ids", half["id"])["folder"])
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text("utf-8").splitlines()]
    sent = {row["task_id"]: [turn["content"] for turn in row["transcript"] if turn["role"] == "agent"] for row in rows}

    def scored(item: str, messages: list[str]) -> Score:
        with episode(item, dataset=mab.folder) as acting:
            acting.reset()
            assert acting.pair == "task5_twin1"
            for message in messages:
                acting.act(message)
            return acting.verdict()

    first, second = scored(half["id"], sent[half["id"]]), scored(other_half["id"], sent[other_half["id"]])
    assert pair_reward(first, second) == 1.0
    assert pair_reward(first, scored(other_half["id"], sent[half["id"]])) == 0.0
    unread = scored(other_half["id"], [text for text in sent[other_half["id"]] if not text.startswith("GET")])
    assert (unread.correct, pair_reward(first, unread)) == (True, 0.0)
    with pytest.raises(UngradedError):
        pair_reward(first, replace(second, correct=None))


def test_what_an_agent_learns_from_one_twin_is_not_asked_of_the_other(mab: Twins) -> None:
    ran = medagent("run", "--dataset", mab.folder, "--agent", "reference", "--sequential", "score")
    assert ran.code != 0
    assert "--sequential: an agent that learns from one twin would know the answer to the other" in ran.err


@pytest.fixture
def broken(mab: Twins, tmp_path: Path) -> Path:
    """A copy of the set, without the searches that its rules made."""
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "dataset.json").write_bytes((mab.folder / "dataset.json").read_bytes())
    return folder


def refused(folder: Path, tasks: list[dict[str, Any]]) -> str:
    """What a run over the set says if its tasks are these."""
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks), "utf-8")
    manifest = json.loads((folder / "dataset.json").read_text("utf-8"))
    manifest["files"] = {"tasks.jsonl": file_digest(folder / "tasks.jsonl")}
    (folder / "dataset.json").write_text(json.dumps(manifest), "utf-8")
    ran = medagent("run", "--dataset", folder, "--agent", "nop", "--results-dir", folder.parent)
    assert ran.code != 0
    assert len(ran.err.strip().splitlines()) == 1, ran.err
    return ran.err


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("Observation/none", "Observation/none: is not in the data, so it cannot be changed"),
        ({"resourceType": "Observation"}, "neither a FHIR resource with resourceType and id nor a reference"),
        ("nothing", "neither a FHIR resource with resourceType and id nor a reference"),
    ],
)
def test_a_change_that_does_not_fit_has_one_line(mab: Twins, broken: Path, entry: Any, problem: str) -> None:
    tasks = mab.tasks
    next(task for task in tasks if task.get("change"))["change"] = [entry]
    assert problem in refused(broken, tasks)


def test_a_twin_without_its_other_half_has_one_line(mab: Twins, broken: Path) -> None:
    assert "occurs 1 times; two tasks share the name of a twin" in refused(broken, mab.tasks[1:])


def test_twins_need_their_own_server(mab: Twins) -> None:
    ran = medagent("run", "--dataset", mab.folder, "--agent", "nop", "--fhir", "http://127.0.0.1:1/fhir/")
    assert "--fhir: twins and injected instructions need the embedded server" in ran.err
