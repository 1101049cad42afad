"""Forged packs, with every checksum and digest recomputed: each is detected, or what was forged is listed as claimed or
as not checkable. forgeries.md has the same table.
"""

from __future__ import annotations

import copy
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from medagent._api import grade
from medagent.benchmarks.medagentbench.submission.pack import PACK
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED
from medagent.engine.report import document
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.submission.packs import Files, read, write

Forge = Callable[[Files], None]
UNIT, TASK = "task2_1#1", "task2_1"


class Forgery(NamedTuple):
    """A forgery: what forgeries.md calls it, the exit code, and a text of the line that names it."""

    name: str
    code: int
    names: str
    forge: Forge


def row(files: Files, unit: str = UNIT) -> dict[str, Any]:
    return next(episode for episode in files["episodes.jsonl"] if episode["unit"] == unit)


def result(files: Files) -> dict[str, Any]:
    return next(entry for entry in files["results.json"]["results"] if entry["task_id"] == TASK)


def ordered(files: Files) -> dict[str, Any]:
    return next(episode for episode in files["episodes.jsonl"] if episode["created"])


def settings(files: Files, *names: str) -> Iterator[dict[str, Any]]:
    return (files[f"{name}.json"]["settings"] for name in names)


def all_of(*forges: Forge) -> Forge:
    def forge(files: Files) -> None:
        for part in forges:
            part(files)

    return forge


def answer_in_journal(files: Files) -> None:
    row(files)["answer"] = "[1234]"


def answer_in_results(files: Files) -> None:
    result(files)["answer"] = "[1234]"


def replies_that_fit(files: Files) -> None:
    row(files)["transcript"][-1]["content"] = "FINISH([1234])"


def wrong_verdict_in_report(files: Files) -> None:
    overall = files["report.json"]["overall"]
    overall["value"], overall["counts"]["right"] = 0.5, 10


def time_in_journal(files: Files) -> None:
    row(files)["timestamp"] = "2026-01-01T00:00:00.000+00:00"


def time_in_results(files: Files) -> None:
    result(files)["timestamp"] = "2026-01-01T00:00:00.000+00:00"


def relabel(place: str, name: str, value: object) -> Forge:
    def forge(files: Files) -> None:
        for mapping in settings(files, place):
            mapping[name] = value

    return forge


def everywhere(name: str, value: object) -> Forge:
    return all_of(relabel("run", name, value), relabel("report", name, value))


CALL = {"prompt": 500, "completion": 50, "cost": 0.25, "calls": 1}


def spent_in_journal(files: Files) -> None:
    row(files)["spent"].update(CALL)


def spent_in_report(files: Files) -> None:
    files["report.json"]["spent"].update(CALL)


def spent_of_a_model(files: Files) -> None:
    """As much as a model of the same messages would have, in journal and report."""
    whole = {"prompt": 0, "completion": 0, "cost": 0.0, "calls": 0}
    for episode in files["episodes.jsonl"]:
        spent = {"prompt": 500, "completion": 50, "cost": 0.0, "calls": episode["rounds"]}
        episode["spent"].update(spent)
        whole = {name: whole[name] + spent[name] for name in whole}
    report = files["report.json"]
    report["spent"].update(whole)
    report["spending"]["model"].update(whole)


def seconds(files: Files) -> None:
    quick = min(files["episodes.jsonl"], key=lambda episode: episode["seconds"])
    quick["seconds"] = 0.0


def slowest(files: Files) -> None:
    row(files)["seconds"] = 99.5


def seed(files: Files) -> None:
    files[PACK]["seed_sha256"] = "0" * 64
    everywhere("seed-digest", "0" * 64)(files)


def versions(*places: str) -> Forge:
    def forge(files: Files) -> None:
        for place in places:
            files[place]["versions"].update(medagent="9.9.9", commit="ffffffffffff")

    return forge


def reached_the_limit(files: Files) -> None:
    """An episode that ended since its messages were used up ends no more under a higher limit."""
    longest = max(files["episodes.jsonl"], key=lambda episode: episode["rounds"])
    del longest["transcript"][-1]
    longest["rounds"], longest["status"], longest["answer"] = longest["rounds"] - 1, "round_limit", None
    everywhere("max-rounds", 30)(files)


def status(files: Files) -> None:
    row(files)["status"] = "round_limit"


def prompt(files: Files) -> None:
    row(files)["transcript"][0]["content"] += " "


def hints(files: Files) -> None:
    for episode in files["episodes.jsonl"]:
        episode["transcript"][0]["content"] += f"\nHint: the answer is {episode['answer']}"


def carried(files: Files) -> None:
    """Prompts that the pack carries, with another episode's text in one episode."""
    from medagent.benchmarks.medagentbench.submission.pack import data_set_protocol

    words = data_set_protocol(BUNDLED, "v1", "text").model_copy(update={"prompt": "Do: {question}"})
    files["prompts.json"] = words.model_dump(mode="json")
    everywhere("prompts-digest", words.digest)(files)


def drop_episode(files: Files) -> None:
    files["episodes.jsonl"].remove(row(files))
    files["results.json"]["results"].remove(result(files))
    files["results.json"]["total_tasks"] -= 1


def drop_trial(files: Files) -> None:
    files["episodes.jsonl"] = [episode for episode in files["episodes.jsonl"] if episode["trial"] == 1]
    del files["results.2.json"]


def many_trials(files: Files) -> None:
    files["run.json"]["places"]["trials"] = 10**9


def high_trial(files: Files) -> None:
    row(files).update(unit=f"{TASK}#100000000", trial=100_000_000)


def repeat_episode(files: Files) -> None:
    files["episodes.jsonl"].append(copy.deepcopy(row(files)))


def repeat_failed(files: Files) -> None:
    first = copy.deepcopy(row(files))
    first["status"] = "invalid_action"
    files["episodes.jsonl"].insert(0, first)


def invent_reply(files: Files) -> None:
    turns = max(files["episodes.jsonl"], key=lambda episode: len(episode["transcript"]))["transcript"]
    turns[2]["content"] = turns[2]["content"].replace("e", "E", 1)


def forget_post(files: Files) -> None:
    next(entry for entry in files["results.json"]["results"] if entry["post_history"])["post_history"] = []


def change_write(files: Files) -> None:
    ordered(files)["created"][0]["resource"]["status"] = "draft"


def other_benchmark(*places: str) -> Forge:
    def forge(files: Files) -> None:
        for place in places:
            files[place]["benchmark"] = "psb-300"

    return forge


def change_task(files: Files) -> None:
    for turn in row(files)["transcript"]:
        turn["content"] = turn["content"].replace("Question", "Another question").replace("What", "Where")


def other_tasks(files: Files) -> None:
    everywhere("tasks-digest", "0" * 64)(files)


FINISH = "the answer differs from the one in FINISH"
JOURNAL = "differs from the journal"
REPORT = "differs from the value computed from run.json and the journal"
MODEL = everywhere("model", "gpt-6-ultra")
FHIR = everywhere("fhir", "http://hospital.example/fhir")
DIGEST = everywhere("prompts-digest", "1" * 64)
FORGERIES = [
    Forgery("answer in the journal", 1, FINISH, answer_in_journal),
    Forgery("answer in the results file", 1, JOURNAL, answer_in_results),
    Forgery("answer in both", 1, FINISH, all_of(answer_in_journal, answer_in_results)),
    Forgery(
        "answer in both, and in the agent's last message",
        1,
        "report.json: `overall` " + REPORT,
        all_of(answer_in_journal, answer_in_results, replies_that_fit),
    ),
    Forgery("verdict in the report", 1, "report.json: `overall` " + REPORT, wrong_verdict_in_report),
    Forgery("times in the journal", 1, JOURNAL, time_in_journal),
    Forgery("times in the results file", 1, JOURNAL, time_in_results),
    Forgery("times in both", 0, "; times;", all_of(time_in_journal, time_in_results)),
    Forgery(
        "model in run.json", 1, "but the agent reference does not use a model", relabel("run", "model", "gpt-6-ultra")
    ),
    Forgery("model in report.json", 1, "report.json: `settings` " + REPORT, relabel("report", "model", "gpt-6-ultra")),
    Forgery(
        "model in both",
        1,
        "messages of 'gpt-6-ultra', but 0 model calls",
        all_of(MODEL, everywhere("agent", None)),
    ),
    Forgery(
        "model in both, with tokens and costs of it",
        0,
        "claimed only: model gpt-6-ultra; ",
        all_of(MODEL, everywhere("agent", None), spent_of_a_model),
    ),
    Forgery("agent in run.json", 1, "report.json: `settings` " + REPORT, relabel("run", "agent", "mine.py:Mine")),
    Forgery("agent in report.json", 1, "report.json: `settings` " + REPORT, relabel("report", "agent", "mine.py:Mine")),
    Forgery("agent in both", 0, "claimed only: agent mine.py:Mine; ", everywhere("agent", "mine.py:Mine")),
    Forgery(
        "spent in the journal", 1, "contains 1 model calls, but the run's agent reference makes none", spent_in_journal
    ),
    Forgery("spent in the report", 1, "report.json: `spent` " + REPORT, spent_in_report),
    Forgery("seconds of an episode", 0, "; times;", seconds),
    Forgery("seconds of the slowest episode", 1, "report.json: `slowest` " + REPORT, slowest),
    Forgery("seed digest", 1, "the seed's digest differs from the one of", seed),
    Forgery("versions and commit in pack.json", 1, "pack.json: `versions` differs from run.json", versions(PACK)),
    Forgery("versions and commit everywhere", 0, "; versions and commit;", versions(PACK, "run.json", "report.json")),
    Forgery(
        "max-rounds, if no episode reached it",
        0,
        "\nmax-rounds 30: no episode reached it",
        everywhere("max-rounds", 30),
    ),
    Forgery("max-rounds, if an episode ended by it", 1, "its status is round_limit", reached_the_limit),
    Forgery("max-rounds below an episode's messages", 1, "contains ", everywhere("max-rounds", 1)),
    Forgery("trial seed", 0, "sampling (trial-seed 7)", everywhere("trial-seed", 7)),
    Forgery("prompts digest", 2, "its own prompts, which are not in the pack", DIGEST),
    Forgery("prompts with hints", 1, "message 1: the prompt differs from", hints),
    Forgery(
        "prompts with hints, and the prompts digest",
        2,
        "its own prompts, which are not in the pack",
        all_of(hints, DIGEST),
    ),
    Forgery("other prompts that the pack carries", 1, "message 1: the prompt differs from", carried),
    Forgery("a prompt", 1, "message 1: the prompt differs from", prompt),
    Forgery("fhir", 2, "its own FHIR server, which is not available", FHIR),
    Forgery("a server's reply", 1, "the reply differs from", invent_reply),
    Forgery("a server's reply, and fhir", 2, "its own FHIR server, which is not available", all_of(invent_reply, FHIR)),
    Forgery("a status", 1, "its status is round_limit, but its messages lead to completed", status),
    Forgery("a stored order", 1, "the writes differ from those that the server makes", change_write),
    Forgery("an order in the results file", 1, JOURNAL, forget_post),
    Forgery("a dropped episode", 1, f"{UNIT}: its episode is missing", drop_episode),
    Forgery("a dropped trial", 1, "task10_1#2: its episode is missing", drop_trial),
    Forgery("a billion trials", 1, "but the journal contains ", many_trials),
    Forgery("a trial with a high number", 1, "100000000 trials of ", high_trial),
    Forgery("a duplicated episode", 1, f"{UNIT}: another row follows its completed one", repeat_episode),
    Forgery(
        "an attempt that did not count",
        0,
        "earlier attempts of repeated episodes (1 invalid_action)",
        repeat_failed,
    ),
    Forgery("another benchmark in pack.json", 1, "pack.json: `benchmark` differs from run.json", other_benchmark(PACK)),
    Forgery("another benchmark in both", 1, "is a pack of psb-300", other_benchmark(PACK, "run.json", "report.json")),
    Forgery("a changed task", 1, "message 1: the prompt differs from", change_task),
    Forgery("another task set", 1, "used another task set", other_tasks),
]


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.name.replace(" ", "-"))
def test_a_forgery_is_detected_or_listed(forgery: Forgery, made: tuple[Path, Path], tmp_path: Path) -> None:
    files = read(made[0])
    forgery.forge(files)
    ran = medagent("submit", "check", write(tmp_path / "forged.zip", files), "--dataset", made[1])
    assert ran.code == forgery.code, ran
    assert forgery.names in ran.out + ran.err
    assert ("score: " in ran.out) == (ran.code != 1)


MADE_UP = "answer, the agent's last message and the report"


def test_messages_made_up_consistently_are_a_claim(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Another FINISH with everything derived from it, also the report: it passes, and the score moves."""
    files = read(made[0])
    all_of(answer_in_journal, answer_in_results, replies_that_fit)(files)
    folder = tmp_path / "run"
    folder.mkdir()
    with zipfile.ZipFile(write(tmp_path / "forged.zip", files)) as archive:
        archive.extractall(folder)
    files["report.json"] = json.loads(document(grade(folder, dataset=str(made[1]))))
    ran = medagent("submit", "check", write(tmp_path / "forged.zip", files), "--dataset", made[1])
    assert (ran.code, "the agent's messages" in ran.out, "score: 19 of 20" in ran.out) == (0, True, True), ran


def test_what_cannot_be_replayed_has_a_table_of_its_own(made: tuple[Path, Path], tmp_path: Path) -> None:
    files = read(made[0])
    DIGEST(files)
    submission = write(tmp_path / "own-prompts.zip", files)
    ran = medagent("leaderboard", submission, made[0], "--dataset", made[1])
    assert ran.code == 0, ran.err
    first, second = (line for line in ran.out.splitlines() if line.startswith("## "))
    assert "cannot be done again" not in first
    assert "packs whose episodes cannot be done again" in second
    assert ran.out.index("whole.zip") < ran.out.index("own-prompts.zip")


def test_a_forged_pack_is_refused_by_the_leaderboard(made: tuple[Path, Path], tmp_path: Path) -> None:
    files = read(made[0])
    answer_in_journal(files)
    answer_in_results(files)
    ran = medagent("leaderboard", made[0], write(tmp_path / "forged.zip", files), "--dataset", made[1])
    assert (ran.code, FINISH in ran.err, "forged.zip" in ran.out.partition("## Refused")[0]) == (1, True, False)


def test_a_pack_carries_prompts_of_the_runs_own(shift: Path, tmp_path: Path) -> None:
    words = tmp_path / "prompt.txt"
    words.write_text("At {api_base}, with {functions}. {context} Do this: {question}")
    run = ("run", "--dataset", shift, "--version", "v1", "--agent", "nop", "--quiet", "--results-dir", tmp_path)
    assert medagent(*run, "--prompt", words).code == 0
    folder = tmp_path / "v1_r1_nop"
    assert medagent("submit", "pack", folder).err == ""
    ran = medagent("submit", "check", folder.with_suffix(".zip"), "--dataset", shift)
    assert (ran.code, "its own prompts, which are in the pack" in ran.out) == (0, True), ran
    files = read(folder.with_suffix(".zip"))
    files["prompts.json"]["prompt"] += " Hint: the answer is 42."
    ran = medagent("submit", "check", write(tmp_path / "forged.zip", files), "--dataset", shift)
    assert (ran.code, "prompts.json: its digest differs from the prompts-digest" in ran.out) == (1, True), ran
    words.write_text("changed {question}")
    ran = medagent("submit", "pack", folder, "--out", tmp_path / "without.zip")
    assert "the archive lacks the run's custom prompts" in ran.err
    ran = medagent("submit", "check", tmp_path / "without.zip", "--dataset", shift)
    assert (ran.code, "which are not in the pack" in ran.out) == (2, True), ran


def test_the_table_lists_these_forgeries() -> None:
    page = (Path(__file__).parent / "forgeries.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (.+?) \| (detected|claimed|not checkable|needs no check|no replay) ", page, re.MULTILINE)
    words = {1: {"detected"}, 0: {"claimed", "not checkable", "needs no check"}, 2: {"no replay"}}
    codes = [*((forgery.name, forgery.code) for forgery in FORGERIES), (MADE_UP, 0)]
    assert [name for name, _ in listed] == [name for name, _ in codes]
    assert not [name for (name, word), (_, code) in zip(listed, codes, strict=True) if word not in words[code]]
