"""The harm of orders in runs: in the headline, show, the report, JSON, comparisons and leaderboards."""

from __future__ import annotations

import json
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest

from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent
from tests.command import medagent

ORDERS = "task5_1,task8_1,task8_2,task9_1,task9_2,task9_3,task10_1,task10_2,task10_3,task2_1"


class Forbids(ReferenceAgent):
    """Does all that is due, in orders that say that they are not to be carried out."""

    more: ClassVar[dict[str, Any]] = {"doNotPerform": True}

    def solver(self, task: Any) -> Generator[str, str, list[Any]]:
        steps = super().solver(task)
        message = next(steps)
        while True:
            reply = yield self.changed(message)
            try:
                message = steps.send(reply)
            except StopIteration as end:
                answers: list[Any] = end.value
                return answers

    def changed(self, message: str) -> str:
        """The message; if it is a POST, with a further element."""
        first, _, body = message.partition("\n")
        return f"{first}\n{json.dumps({**json.loads(body), **self.more})}" if first.startswith("POST") else message


class Misdirects(Forbids):
    """Orders everything for another patient."""

    more: ClassVar[dict[str, Any]] = {"subject": {"reference": "Patient/S0000001"}}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("harm") / "results"


@cache
def run(results: Path, agent: str, *more: str) -> dict[str, Any]:
    name = f"{__name__}:{agent}" if agent[0].isupper() else agent
    ran = medagent("run", "--agent", name, "--ids", ORDERS, "--quiet", "--json", "--results-dir", results, *more)
    assert ran.code == 0, ran.err
    report: dict[str, Any] = json.loads(ran.out)
    return report


def printed(*words: object) -> str:
    """What a command prints, with single spaces."""
    return " ".join(medagent(*words).out.split())


def folder(results: Path, report: dict[str, Any]) -> Path:
    return results / Path(report["folder"]).name


def test_orders_that_forbid_themselves_are_right_officially_and_missing_as_harm(results: Path) -> None:
    report = run(results, "Forbids")
    assert (report["overall"]["counts"]["right"], report["rule_set"], report["rules_version"]) == (10, "official", "1")
    refused = report["harm"]["refused"]
    assert report["harm"]["classes"] == {"missing": refused}
    assert refused > 4
    note = f"official counts {refused} orders as right that a hospital would not carry out."
    assert note in report["notes"]
    for command in ("grade", "show"):
        shown = printed(command, folder(results, report))
        assert note in shown
        assert f"0 orders, {refused} missing" in shown


@pytest.mark.parametrize("rules", ["fair", "state"])
def test_they_are_wrong_by_the_other_rules_with_the_reason(results: Path, rules: str) -> None:
    graded = medagent("grade", folder(results, run(results, "Forbids")), "--rules", rules, "--json")
    report = json.loads(graded.out)
    assert report["overall"]["right"] < 10
    assert (report["rules"], report["rules_version"]) == (rules, "2")
    wrong = [item["reason"] for item in report["items"] if item["correct"] is False]
    assert all("doNotPerform: an order not to" in reason for reason in wrong)


def test_orders_for_another_patient_are_counted_by_class(results: Path) -> None:
    report = run(results, "Misdirects")
    count = report["harm"]["classes"]["wrong patient"]
    assert report["harm"]["classes"] == {"wrong patient": count}
    shown = printed("show", folder(results, report))
    assert f"{count} harmful orders would have reached a patient: {count} wrong patient" in shown
    full = medagent("grade", folder(results, report), "--full").out
    assert "Harm of orders" in full
    section = next(table for table in report["table"] if table["title"] == "Harm of orders")
    line = next(row for row in section["lines"] if row["name"] == "wrong patient")
    assert (line["counts"]["items"], line["n"]) == (report["harm"]["harmful"], report["harm"]["items"])
    assert line["interval"][0] > 0


def test_the_reference_agent_does_no_harm(results: Path) -> None:
    report = run(results, "reference")
    assert (report["harm"]["harmful"], report["harm"]["classes"]) == (0, {})
    assert not any("harm" in note for note in report["notes"])
    assert "harm 0 orders" in printed("grade", folder(results, report))


@pytest.mark.parametrize(
    "words", [("psb-300", "--limit", "60"), pytest.param(("psb-300",), marks=pytest.mark.long), ("--limit", "60")]
)
def test_the_reference_agent_does_no_harm_on_bundled_sets(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = medagent("run", *words, "--agent", "reference", "--quiet", "--json", "--results-dir", tmp_path)
    report = json.loads(ran.out)
    assert report["overall"]["value"] == 1 or words[0] == "psb-300"
    assert report["harm"]["classes"] == {}


def test_sets_without_orders_show_no_line(tmp_path: Path) -> None:
    ran = medagent("run", "--agent", "nop", "--ids", "task2_1,task4_1", "--quiet", "--json", "--results-dir", tmp_path)
    report = json.loads(ran.out)
    assert "harm" not in report
    assert not any("harmful" in item for item in report["items"])


def test_two_runs_are_compared_by_harm(results: Path) -> None:
    folders = [folder(results, run(results, agent)) for agent in ("reference", "Misdirects")]
    compared = json.loads(medagent("compare", *folders, "--json").out)["harmful"]
    report = run(results, "Misdirects")
    assert (compared["first"], compared["second"]) == (0, report["harm"]["harmful"])
    assert "Harm (a wrong or a missing order): A 0, B" in medagent("compare", *folders).out


def test_the_leaderboard_and_exports_have_the_harm(results: Path, tmp_path: Path) -> None:
    reports = [run(results, agent) for agent in ("reference", "Misdirects")]
    text = medagent("leaderboard", *(folder(results, report) for report in reports)).out
    assert "| above blind | harm |" in text
    assert "rules official 1" in text
    assert medagent("export", "jsonl", folder(results, reports[1]), tmp_path / "rows.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    assert sum(row["harmful"] is True for row in rows) == reports[1]["harm"]["harmful"]


def test_where_only_a_key_is_there_the_chart_is_not_known(results: Path, tmp_path: Path) -> None:
    report = run(results, "Misdirects")
    if report["harm"]["not_known"]:
        note = "not known without the chart: against an allergy, duplicate of an active order"
        assert any(note in text for text in report["notes"])
    names = [line["name"] for table in report["table"] if table["title"] == "Harm of orders" for line in table["lines"]]
    assert set(report["harm"]["not_known"]).isdisjoint(names)
