"""A benchmark of somebody's whose answers are judged, over a real OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medagent.engine.folder import Run
from medagent.engine.scores import Item
from medagent.judging.benchmark import judgements_of
from medagent.judging.calls import PanelCalls, Replies, ask
from medagent.judging.judged import Judged, Verdict
from medagent.judging.panel import Panel
from medagent.judging.rubric import Prompt, Subject, only_label
from medagent.models.settings import ModelSettings
from tests.command import Ran, medagent
from tests.loopback import Fault, ModelServer, status
from tests.medagent.judging.capitals import CAPITALS, TwoSteps

CAPITALS_PY = f"{Path(__file__).parent / 'capitals.py'}:Capitals"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


class World:
    """`m` knows all capitals but Norway's; `good` knows them all, `mute` says nothing that can be read."""

    def __init__(self) -> None:
        self.mute = True

    def __call__(self, body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        country = next(name for name in CAPITALS if name in text)
        if body["model"] == "m":
            return "Bergen" if country == "Norway" else CAPITALS[country]
        if body["model"] == "mute" and self.mute:
            return "Hard to say."
        return "Right." if f"Reply: {CAPITALS[country]}" in text else "It is wrong."


def run(server: ModelServer, folder: Path, *judges: str) -> Ran:
    named = [word for judge in judges for word in ("--judge", judge)]
    words = ("--model", "m", "--base-url", server.url, "--results-dir", folder, "-q")
    return medagent("run", CAPITALS_PY, *words, *named)


def again(server: ModelServer, folder: Path, *words: object) -> Ran:
    return medagent(
        "judge",
        "again",
        folder / "capitals_r1_m",
        "--judge-base-url",
        server.url,
        "-q",
        "--benchmark",
        CAPITALS_PY,
        *words,
    )


def rate(folder: Path) -> str:
    """The share of right answers of those that are scored, and their number."""
    report = json.loads(medagent("grade", folder / "capitals_r1_m", "--json", "--benchmark", CAPITALS_PY).out)
    return f"{report['overall']['value']} of {report['overall']['n']}"


def calls(server: ModelServer) -> Counter[str]:
    return Counter(call.body["model"] for call in server.calls)


def test_a_benchmark_of_somebodys_is_judged_checked_and_compared(tmp_path: Path) -> None:
    with ModelServer(reply=World()) as server:
        ran = run(server, tmp_path, "good")
        assert (ran.code, rate(tmp_path)) == (0, f"{2 / 3} of 3"), ran.err
        assert run(server, tmp_path, "good").code == 0
        assert calls(server) == {"m": 3, "good": 3}, "what is judged was paid for again"
        checked = medagent(
            *("judge", "check", CAPITALS_PY, "--judge", "good", "--judge-base-url", server.url),
            *("--results-dir", tmp_path, "-q"),
        )
        assert (checked.code, "100.0%" in checked.out) == (2, True), checked.err or "nine cases are too few"
        assert again(server, tmp_path, "--judge", "other").code == 0
    code = ("--benchmark", CAPITALS_PY)
    agreed = medagent(
        "judge", "agree", *code, f"{tmp_path / 'capitals_r1_m'}@good", f"{tmp_path / 'capitals_r1_m'}@other"
    )
    assert "agreement 1.0000 (3 of the 3 rows that both labelled)" in agreed.out
    labels = tmp_path / "people.csv"
    labels.write_text("id,label\nHungary,right\nNorway,Right\n", "utf-8")
    people = json.loads(medagent("judge", "agree", *code, f"{tmp_path / 'capitals_r1_m'}@good", labels, "--json").out)
    assert people["differ"] == [{"unit": "Norway", "first": "wrong", "second": "right"}]


def test_show_prints_the_judges_labels_and_replies(tmp_path: Path) -> None:
    with ModelServer(reply=World()) as server:
        run(server, tmp_path, "good", "mute")
    shown = medagent("show", tmp_path / "capitals_r1_m", "Norway", "--benchmark", CAPITALS_PY).out
    assert "judge good: wrong\n  It is wrong.\njudge mute: unreadable\n  Hard to say.\n" in shown


def test_an_unreadable_reply_leaves_its_unit_unscored_and_is_asked_for_again(tmp_path: Path) -> None:
    world = World()
    with ModelServer(reply=world) as server:
        assert run(server, tmp_path, "mute").code == 2
        assert rate(tmp_path) == "None of 0"
        world.mute = False
        assert run(server, tmp_path, "mute").code == 0
        assert calls(server) == {"m": 3, "mute": 6}
    assert rate(tmp_path) == f"{2 / 3} of 3"


def test_a_judge_without_a_verdict_changes_no_figure_and_can_be_dropped(tmp_path: Path) -> None:
    def faults(call: Any) -> Fault | None:
        return status(404, message="no such model") if call.body["model"] == "godo" else None

    with ModelServer(reply=World(), faults=faults) as server:
        run(server, tmp_path, "good")
        assert again(server, tmp_path, "--judge", "godo").code in (1, 2)
        assert rate(tmp_path) == f"{2 / 3} of 3"
        again(server, tmp_path, "--judge", "mute", "--only", "Norway")
        assert rate(tmp_path) == "1.0 of 2", "an unreadable reply replaces the label of its unit"
        dropped = again(server, tmp_path, "--drop-judging", "mute")
        assert (dropped.code, rate(tmp_path)) == (0, f"{2 / 3} of 3")
        assert again(server, tmp_path, "--drop-judging", "godo").code == 0
        refused = again(server, tmp_path, "--drop-judging", "nobody")
        assert (refused.code, "unknown judge nobody; the judges are good" in refused.err) == (1, True)


def test_the_only_panel_is_not_dropped(tmp_path: Path) -> None:
    with ModelServer(reply=World()) as server:
        run(server, tmp_path, "good")
        refused = again(server, tmp_path, "--drop-judging", "good")
    assert (refused.code, "every panel contains good; judge again with another judge" in refused.err) == (1, True)


def test_a_majority_decides_whatever_the_others_would_say(tmp_path: Path) -> None:
    with ModelServer(reply=World()) as server:
        run(server, tmp_path, "good", "other", "mute")
    assert rate(tmp_path) == f"{2 / 3} of 3"


@pytest.mark.parametrize(
    ("states", "labels", "state", "complete", "majority"),
    [
        (["a", "a"], {"0": "a", "1": "a"}, "judged", True, "a"),
        (["a", "b"], {"0": "a", "1": "b"}, "judged", True, None),
        (["a", "a", "?"], {"0": "a", "1": "a", "2": None}, "unreadable", True, "a"),
        (["a", "?"], {"0": "a", "1": None}, "unreadable", False, None),
        (["a", ""], {"0": "a", "1": None}, "owed", False, None),
        (["a", "?", ""], {"0": "a", "1": None, "2": None}, "owed", False, None),
    ],
)
def test_the_states_of_a_unit(
    states: list[str], labels: dict[str, str | None], state: str, complete: bool, majority: str | None
) -> None:
    said = {"": Verdict(), "?": Verdict("hm")}
    judged = Judged({str(n): (said.get(label, Verdict(f"it is {label}", label)),) for n, label in enumerate(states)})
    assert (judged.labels, judged.state, judged.complete, judged.majority) == (labels, state, complete, majority)
    assert len({judged.digest, Judged().digest, Judged({"0": (Verdict("a", "b"),)}).digest}) == 3


def two_steps(body: dict[str, Any], asked: Counter[str]) -> str:
    """A judge that says nothing that can be read when it is asked about Vienna for the first time."""
    text = body["messages"][-1]["content"]
    if body["model"] == "m":
        return {"Hungary": "Budapest", "Austria": "Vienna", "Norway": "I do not know"}[text[:-1].rpartition(" ")[2]]
    asked[text] += 1
    if "Vienna" in text and asked[text] == 1:
        return "Hm."
    return "no" if "I do not know" in text else "yes"


def test_a_query_that_follows_from_a_label_and_one_that_is_asked_again(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()
    with ModelServer(reply=lambda body: two_steps(body, asked)) as server:
        words = ("--model", "m", "--judge", "j", "--base-url", server.url, "--results-dir", tmp_path)
        ran = medagent("run", CAPITALS_PY.replace(":Capitals", ":TwoSteps"), *words)
    assert ran.code == 2, "the second question about Vienna has no label yet"
    assert asked == {
        "Does it name a city? Budapest": 1,
        "Does it name a city? Vienna": 2,
        "Does it name a city? I do not know": 1,
        "Is Budapest the capital of Hungary?": 1,
        "Is Vienna the capital of Austria?": 1,
    }
    run = Run(tmp_path / "two-steps_r1_m")
    judged = judgements_of(run, TwoSteps())
    assert {unit: judgement.state for unit, judgement in judged.items()} == {
        "Hungary": "judged",
        "Norway": "judged",
        "Austria": "unreadable",
    }
    assert judged["Hungary"].of("there")["j"].label == "yes"
    assert [verdict.query for verdict in judged["Norway"].verdicts["j"]] == ["there"]


def test_an_answer_is_judged_without_a_folder() -> None:
    asked: Counter[str] = Counter()
    rubric = TwoSteps.rubric
    with ModelServer(reply=lambda body: two_steps(body, asked)) as server:
        panel = Panel([ModelSettings(name="j", base_urls=[server.url])], rubric.prompt("bundled"))
        judged = asyncio.run(ask(rubric, panel, Subject("Hungary", Item(id="Hungary", target="Budapest"), "Budapest")))
    assert [(verdict.query, verdict.label) for verdict in judged.verdicts["j"]] == [("there", "yes"), ("right", "yes")]
    assert (judged.labels, judged.complete) == ({"j": "yes"}, True)


def test_one_message_is_asked_once_and_another_gold_asks_again() -> None:
    rubric = TwoSteps.rubric
    panel = Panel([ModelSettings(name="j")], rubric.prompt("bundled"))
    same = [Subject(name, Item(id=name), said) for name, said in (("a", "x"), ("b", "x"), ("c", "y"))]
    owed = list(PanelCalls(rubric, panel, Replies()).owed(same))
    assert [call.message for call in owed] == ["Does it name a city? x", "Does it name a city? y"]
    replies = Replies([(owed[0].key, "hm"), (owed[1].key, None)])
    later = PanelCalls(rubric, panel, replies)
    assert [call.key for call in later.owed(same)] == [f"{owed[0].key}#2", owed[1].key]
    assert [call.key for call in later.owed(same, failed=False)] == [f"{owed[0].key}#2"]


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("right", "right"),
        ("**Right**.", "right"),
        ("It is not right.", "not right"),
        ("right or wrong?", None),
        ("<think>wrong</think>right", "right"),
        ("rightly", None),
        ("", None),
    ],
)
def test_the_only_label_of_a_reply(reply: str, label: str | None) -> None:
    assert only_label(reply, ("right", "not right", "wrong")) == label


def test_a_prompt_is_read_from_a_file_and_filled_once(tmp_path: Path) -> None:
    path = tmp_path / "judge.toml"
    path.write_text('user = "Is {reply} {gold}? {other}"', "utf-8")
    prompt = TwoSteps.rubric.prompt(str(path))
    assert prompt.fill(reply="{gold}", gold="x") == "Is {gold} x? {other}"
    assert prompt.digest == Prompt.read(path).digest != Prompt({"user": "x"}).digest
    for text in ("user = 3", "user = ", ""):
        path.write_text(text, "utf-8")
        with pytest.raises(Exception, match="judge prompt"):
            Prompt.read(path)
