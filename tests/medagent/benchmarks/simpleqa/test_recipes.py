"""Recipes: what is sent, how it is read, and what the score says of itself; over stand-ins for the published texts."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.simpleqa._recipes import score_line
from medagent.benchmarks.simpleqa.settings import SimpleqaSettings
from medagent.core.options import options
from medagent.engine.folder import command_line
from medagent.judging.panel import Panel
from medagent.models.settings import ModelSettings
from refsol.simpleqa import published
from refsol.simpleqa.prompts import JudgePrompt, Template
from refsol.simpleqa.published import JUDGE_PROMPTS, MODEL_PROMPTS
from refsol.simpleqa.recipes import RECIPES, recipe_of
from tests.command import Ran, medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.simpleqa.oracle import write_items
from tests.shared_data import SHARED, need

GRADER = "Grade {question} by {target}: {predicted_answer} (A, B or C)"
SYSTEM = "Stand-in system message."
INSTRUCTION = 'Kérdés: {question}\n{"answer": …}'
QUESTIONS = {"Which {target}?": "gold {predicted_answer}", "Who?": "A. Nobody", "When?": "1848"}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of simple-evals and OpenCompass whose texts are stand-ins, known by their digests."""
    folder = tmp_path / "checkout"
    files = {
        "simpleqa_eval.py": f'GRADER_TEMPLATE = """\n{GRADER}\n""".strip()\n',
        "sampler/chat_completion_sampler.py": f"OPENAI_SYSTEM_MESSAGE_API = {SYSTEM!r}\n",
        "opencompass/configs/datasets/OpenHuEval/HuSimpleQA/HuSimpleQA_setting.py": f"I = {{'hu': {INSTRUCTION!r}}}\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    judge = replace(published._JUDGES["simple-evals"], user={"": sha256(GRADER)}, system=sha256(SYSTEM))
    monkeypatch.setitem(published._JUDGES, "simple-evals", judge)
    model = replace(published._MODELS["simple-evals"], system=sha256(SYSTEM))
    monkeypatch.setitem(published._MODELS, "simple-evals", model)
    hungarian = published._Pieces(published._HUNGARIAN, {"hu": sha256(INSTRUCTION), "en": sha256(INSTRUCTION)})
    monkeypatch.setitem(published._MODELS, "opencompass-husimpleqa", hungarian)
    found = published.published_prompts(folder)
    monkeypatch.setitem(JUDGE_PROMPTS, "simple-evals", found.judges["simple-evals"].digest)  # type: ignore[arg-type]  # a Mapping for readers, a dict here
    for name, prompt in found.models.items():
        monkeypatch.setitem(MODEL_PROMPTS, name, prompt.digest)  # type: ignore[arg-type]  # a Mapping for readers, a dict here
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    return folder


def questions(folder: Path, variant: str = "simpleqa") -> Path:
    path = folder / "questions.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["original_index", "metadata", "problem", "answer", "topic"])
        writer.writerows([n, "{'topic': 'Art'}", *row, "Art"] for n, row in enumerate(QUESTIONS.items()))
    return path


def run(server: ModelServer, folder: Path, data: Path, *words: object) -> Ran:
    common = ("--data", data, "--model", "m", "--base-url", server.url, "--results-dir", folder, "-q")
    return medagent("run", "simpleqa", *common, *words)


def replies(judge: Callable[[str], str]) -> Callable[[dict[str, Any]], str]:
    return lambda body: "It is {question}." if body["model"] == "m" else judge(body["messages"][-1]["content"])


def test_simple_evals_is_asked_and_judged_as_published_and_the_score_says_what_was_changed(
    checkout: Path, tmp_path: Path
) -> None:
    copied = medagent("simpleqa", "prompt", checkout)
    assert (copied.code, "judge prompt simple-evals" in copied.out, "model prompt simple-evals" in copied.out) == (
        *(0, True, True),
    ), copied.err
    said = {"Which": "A", "Who?": "I would give it a B.", "When": "no letter"}
    data = questions(tmp_path)
    with ModelServer(reply=replies(lambda text: next(reply for key, reply in said.items() if key in text))) as server:
        ran = run(server, tmp_path, data, "--variant", "simpleqa", "--recipe", "simple-evals")
        asked = {model: [call.body for call in server.calls if call.body["model"] == model] for model in ("m",)}
        judged = [call.body for call in server.calls if call.body["model"] != "m"]
        again = run(server, tmp_path, data, "--variant", "simpleqa", "--recipe", "simple-evals")
        assert (again.code, len(server.calls)) == (0, 6), "a finished run costs nothing"
    assert ran.code == 0, ran.err
    assert {body["messages"][-1]["content"] for body in asked["m"]} == set(QUESTIONS)
    assert {body["messages"][0]["content"] for body in asked["m"]} == {SYSTEM}
    assert {body["messages"][-1]["content"] for body in judged} == {
        GRADER.format(question=question, target=gold, predicted_answer="It is {question}.")
        for question, gold in QUESTIONS.items()
    }
    assert {(body["model"], body["temperature"], body["max_tokens"]) for body in [*asked["m"], *judged]} == {
        ("m", 0.5, 2048),
        ("gpt-4.1-2025-04-14", 0.5, 2048),
    }
    assert "recipe simple-evals for simpleqa: changed: 3 questions (published: 4,326)" in ran.out
    folder = tmp_path / "simpleqa-simpleqa_r1_m"
    settings = json.loads((folder / "run.json").read_text("utf-8"))["settings"]
    assert {name: settings[name] for name in settings if "recipe" in name or name == "model-prompt-digest"} == {
        "recipe": "simple-evals",
        "recipe:judge": "gpt-4.1-2025-04-14",
        "recipe:rule": "letter",
        "recipe:judge-prompt-digest": JUDGE_PROMPTS["simple-evals"],
        "recipe:model-prompt-digest": MODEL_PROMPTS["simple-evals"],
        "model-prompt-digest": MODEL_PROMPTS["simple-evals"],
    }
    command = command_line("medagent run simpleqa", settings, options(SimpleqaSettings))
    assert ("--recipe simple-evals" in command, "recipe:" in command) == (True, False)
    rows = json.loads(medagent("simpleqa", "score", folder, "--json").out)[0]
    total = rows["sections"][0]["total"]["rows"]
    assert (rows["rules"], {name: n for name, n in total.items() if n}) == (
        "letter",
        {"correct": 1, "incorrect": 1, "not_attempted": 1},
    )
    graded = json.loads(medagent("grade", folder, "--json").out)
    assert (graded["overall"]["value"], graded["overall"]["n"], graded["rule_set"]) == (1 / 3, 3, "letter")


def test_each_change_to_a_recipe_is_named(checkout: Path, tmp_path: Path) -> None:
    medagent("simpleqa", "prompt", checkout)
    (tmp_path / "own.toml").write_text('[user]\nen = "Q: {question}"', "utf-8")
    words = ("--variant", "simpleqa", "--recipe", "simple-evals", "--judge", "j", "--temperature", "0")
    with ModelServer(reply=replies(lambda _: "A")) as server:
        data = questions(tmp_path)
        ran = run(server, tmp_path, data, *words, "--prompt", tmp_path / "own.toml", "--system", "Be brief.")
    line = " ".join(ran.out.split()).partition("recipe ")[2]
    assert all(
        part in line
        for part in (
            "changed: model prompt ",
            "; --system; ",
            "; temperature 0 (published: 0.5)",
            "; judge j (published: gpt-4.1-2025-04-14)",
        )
    ), line


@pytest.mark.parametrize(
    "recipe",
    [recipe for recipe in RECIPES if recipe.judge_prompt],
    ids=lambda recipe: f"{recipe.name}-{recipe.variant}",
)
def test_a_run_by_the_recipe_over_the_whole_set_is_as_published(recipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = JudgePrompt(Template("{question}{gold}{reply}", {}), "letters")
    monkeypatch.setitem(JUDGE_PROMPTS, recipe.judge_prompt, prompt.digest)  # type: ignore[arg-type]  # a Mapping for readers, a dict here
    sampled = {name: None if value == -1 else value for name, value in recipe.judge_sampling.items()}
    panel = Panel([ModelSettings(name=recipe.judge, **sampled)], prompt, recipe.rule)
    settings = {
        "recipe": recipe.name,
        "variant": recipe.variant,
        "model": "m",
        "model-prompt-digest": MODEL_PROMPTS.get(recipe.model_prompt, recipe.question_alone.digest),
        **{name.replace("_", "-"): value for name, value in recipe.sampling.items()},
    }
    assert score_line(settings, recipe.questions, [panel]) == f"recipe {recipe.name} for {recipe.variant}: as published"
    robust = replace(panel, rule="robust")
    assert f"verdict rule robust (published: {recipe.rule})" in score_line(settings, recipe.questions, [robust])


def test_the_autorater_takes_its_text_from_a_file_and_its_headline_is_f(tmp_path: Path) -> None:
    text = tmp_path / "autorater.txt"
    text.write_text(f"\n{GRADER}\n", "utf-8")
    words = ("--variant", "simpleqa-verified", "--recipe", "autorater")
    said = {"Which": "A", "Who?": "correct", "When": "C"}
    with ModelServer(reply=replies(lambda text: next(reply for key, reply in said.items() if key in text))) as server:
        data = questions(tmp_path)
        refused = run(server, tmp_path, data, *words)
        assert (refused.code, "--judge-prompt FILE.txt" in refused.err) == (1, True)
        ran = run(server, tmp_path, data, *words, "--judge-prompt", text)
        body = next(call.body for call in server.calls if call.body["model"] == "gpt-4.1-2025-04-14")
    assert ran.code == 0, ran.err
    assert ("temperature" in body, body["messages"][-1]["content"].startswith("Grade ")) == (False, True)
    folder = tmp_path / "simpleqa-simpleqa-verified_r1_m"
    overall = json.loads(medagent("grade", folder, "--json").out)["overall"]
    assert (overall["value"], overall["more"]["correct"]) == (4 / 5, 2 / 3), "F = 2c / (2(c + i) + n)"
    assert "recipe autorater for simpleqa-verified: changed: 3 questions" in ran.out


def test_husimpleqa_by_opencompass_leaves_out_what_its_rule_cannot_read(checkout: Path, tmp_path: Path) -> None:
    medagent("simpleqa", "prompt", checkout)
    assert medagent("simpleqa", "prompt", need(SHARED / "simpleqa" / "HuSimpleQA.py")).code == 0
    rows = [{"question": f"Kérdés {n}?", "answer": "x", "qid": f"q{n}"} for n in range(4)]
    said = ['{"evaluation": "CORRECT"}', '{"evaluation": "NOT_ATTEMPTED"}', '{"evaluation": "UNSURE"}', "CORRECT"]
    number = lambda text: int(text.rpartition('"question": Kérdés ')[2][0])  # noqa: E731  # one line, used below
    with ModelServer(reply=replies(lambda text: said[number(text)])) as server:
        data = write_items(tmp_path / "q.jsonl", rows)
        ran = run(server, tmp_path, data, "--recipe", "opencompass", "--lang", "hu")
        assert len([call for call in server.calls if call.body["model"] != "m"]) == 4, "nothing is asked for again"
    assert ran.code == 0, ran.err
    (section,) = json.loads((tmp_path / "simpleqa-husimpleqa_r1_m" / "results.json").read_text("utf-8"))["sections"]
    assert {name: n for name, n in section["total"]["rows"].items() if n} == {
        "correct": 1,
        "not_attempted": 1,
        "unscored": 1,
        "left_out": 1,
    }
    assert section["total"]["count"] == 3


def test_other_pairs_are_refused_and_the_valid_ones_listed(tmp_path: Path) -> None:
    ran = medagent("run", "simpleqa", "--model", "m", "--judge", "j", "--recipe", "simple-evals")
    assert ran.code == 1
    assert ran.err == (
        "medagent: --recipe simple-evals is not for --variant husimpleqa. Variants by recipe: own: every variant; "
        "simple-evals: simpleqa; opencompass: simpleqa, simpleqa-verified, chinese-simpleqa, husimpleqa; "
        "autorater: simpleqa-verified\n"
    )
    assert recipe_of("own", "chinese-simpleqa") is None


def test_prompts_that_were_not_copied_are_named_with_their_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    words = ("--variant", "simpleqa", "--recipe", "simple-evals", "--model", "m", "--results-dir", tmp_path)
    ran = medagent("run", "simpleqa", "--data", questions(tmp_path), *words)
    assert (ran.code, "copy them from a checkout of github.com/openai/simple-evals" in ran.err) == (1, True), ran.err


def test_a_checkout_without_a_known_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "simpleqa_eval.py").write_text('GRADER_TEMPLATE = "another text"', "utf-8")
    ran = medagent("simpleqa", "prompt", tmp_path)
    assert (ran.code, ran.err) == (1, f"medagent: {tmp_path}: contains no prompt with a known digest\n")


def test_a_text_that_is_another_one_than_the_published_is_not_copied_and_named(checkout: Path) -> None:
    changed = checkout / "simpleqa_eval.py"
    changed.write_text(changed.read_text("utf-8").replace("Grade", "Judge"), "utf-8")
    ran = medagent("simpleqa", "prompt", checkout)
    assert (ran.code, "judge prompt" in ran.out) == (0, False)
    assert ran.err == (
        f"judge prompt simple-evals: not copied: the text in {checkout} differs from the published one\n"
    )


def test_the_projects_own_recipe_says_that_it_is_not_comparable(tmp_path: Path) -> None:
    with ModelServer(reply=replies(lambda _: '{"evaluation": "CORRECT"}')) as server:
        data = write_items(tmp_path / "q.jsonl", [{"question": "Ki?", "answer": "x"}])
        ran = run(server, tmp_path, data, "--judge", "j")
    assert "recipe own: this project's prompts, not comparable with published scores" in ran.out
    assert json.loads((tmp_path / "simpleqa-husimpleqa_r1_m" / "run.json").read_text())["settings"]["recipe"] is None


@pytest.mark.parametrize(("unread", "words", "code"), [(1, (), 0), (3, (), 2), (3, ("--allow-unread", "0.2"), 0)])
def test_unreadable_replies_up_to_a_share_leave_a_run_complete(
    tmp_path: Path, unread: int, words: tuple[str, ...], code: int
) -> None:
    rows = [{"question": f"Ki {n}?", "answer": "x", "qid": f"q{n}"} for n in range(20)]
    mute = {f"Ki {n}?" for n in range(unread)}
    reply = replies(lambda text: "Hm." if any(question in text for question in mute) else '{"evaluation": "CORRECT"}')
    with ModelServer(reply=reply) as server:
        data = write_items(tmp_path / "q.jsonl", rows)
        ran = run(server, tmp_path, data, "--judge", "j", "--lang", "hu", *words)
        assert len(server.calls) == 20 + 20 + unread, "an unreadable reply is asked for again once"
        again = ("--judge", "j", "--judge-base-url", server.url, "--allow-unread", "0.2", "-q")
        assert medagent("judge", "again", tmp_path / "simpleqa-husimpleqa_r1_m", *again).code == 0
    graded = medagent("grade", tmp_path / "simpleqa-husimpleqa_r1_m")
    assert (ran.code, graded.code) == (code, code), ran.err
    assert f"no readable label: {'q0/hu' if unread == 1 else 'q0/hu, q1/hu, q2/hu'}" in ran.out
    assert ("15.0% of 20 judged answers lack a readable label" in ran.out) == (code == 2)
    report = json.loads(medagent("grade", tmp_path / "simpleqa-husimpleqa_r1_m", "--json").out)
    assert report["overall"]["n"] == 20, "an unscored row stays in the denominator"
    assert report["ungraded"] == (unread if code else 0)
