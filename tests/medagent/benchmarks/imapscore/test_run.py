from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.imapscore.benchmark import Imapscore
from medagent.benchmarks.imapscore.settings import ImapscoreSettings
from medagent.core.errors import StopRunError, UserError
from refsol.imapscore.records import Recording, read_recordings
from refsol.imapscore.score import Status, score_recordings
from tests import runs
from tests.command import medagent
from tests.loopback import Call, ModelServer, status
from tests.medagent.benchmarks.imapscore.oracle import DATA, ITEMS, RECORDINGS, Oracle, stage_of
from tests.starts import start


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def config(server: ModelServer, folder: Path, **changes: Any) -> ImapscoreSettings:
    options = {"data": DATA / "items.jsonl", "model": "m", "base_url": [server.url], "results_dir": folder}
    return runs.impatient(ImapscoreSettings)(**options | {"concurrency": 8} | changes)


def run(server: ModelServer, folder: Path, **changes: Any) -> int:
    return runs.run(Imapscore(), config(server, folder, **changes))


def recorded(folder: Path, round_: str = "r1") -> dict[str, Recording]:
    return {recording.id: recording for recording in read_recordings(folder / f"imapscore_{round_}_m" / "imaps.jsonl")}


def only(folder: Path, *ids: str) -> Path:
    """A data file of some bundled items."""
    lines = (DATA / "items.jsonl").read_text(encoding="utf-8").splitlines()
    path = folder / "some.jsonl"
    path.write_text("\n".join(line for line in lines if json.loads(line)["id"] in ids), encoding="utf-8")
    return path


def sent(server: ModelServer) -> Counter[tuple[str, int]]:
    return Counter((call.messages[-1]["content"], call.body["seed"]) for call in server.calls)


def stages(server: ModelServer) -> Counter[str]:
    return Counter(stage_of(call.body) for call in server.calls)


def test_a_run_records_what_the_model_says(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        assert run(server, tmp_path) == 0
    found = recorded(tmp_path)
    assert list(found) == [item.id for item in ITEMS]
    for id_, recording in found.items():
        expected = RECORDINGS[id_]
        assert (recording.digest, recording.question, recording.label) == (
            expected.digest,
            expected.question,
            expected.label,
        )
        assert (recording.response, recording.relations, recording.failure) == (
            expected.response,
            expected.relations,
            None,
        )
    assert all(call.body["temperature"] == 0.9 for call in server.calls)
    assert len(server.calls) <= 12 * len(ITEMS)
    assert set(sent(server).values()) == {1}
    assert stages(server)["question"] == 3 * len(ITEMS)


def test_a_finished_run_calls_nobody(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path)
        calls, written = len(server.calls), (tmp_path / "imapscore_r1_m" / "imaps.jsonl").read_bytes()
        assert run(server, tmp_path) == 0
        assert run(server, tmp_path, round="r2") == 0  # from the cache
        assert run(server, tmp_path, overwrite=True) == 0
    assert len(server.calls) == calls
    assert (tmp_path / "imapscore_r1_m" / "imaps.jsonl").read_bytes() == written


def test_another_models_answers_share_question_and_label(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in only(tmp_path, "en-2").read_text(encoding="utf-8").splitlines()]
    rows.append({**rows[0], "id": "other", "example_prediction": rows[0]["Doctor_Response"]})
    both = tmp_path / "both.jsonl"
    both.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with ModelServer(reply=Oracle(), latency=0.05) as server:
        assert run(server, tmp_path, data=both) == 0
        assert stages(server) == {"question": 3, "label": 3, "response": 3, "relations": 6}
    assert recorded(tmp_path)["other"].response == RECORDINGS["en-2"].label


def test_other_settings_are_refused(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, data=only(tmp_path, "en-2"))
        with pytest.raises(UserError, match=r"min-votes 2 → 3"):
            run(server, tmp_path, data=only(tmp_path, "en-2"), min_votes=3)
        with pytest.raises(UserError, match="data-digest"):
            run(server, tmp_path, data=only(tmp_path, "en-3"))


def test_a_killed_run_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    with ModelServer(reply=Oracle()) as server:
        run(server, calm)
        total = len(server.calls)
    with ModelServer(reply=Oracle(), latency=0.02) as server:
        words = ["--model", "m", "--base-url", server.url, "--results-dir", killed, "--concurrency", 4]
        environment = os.environ | {"OPENAI_API_KEY": "none"}
        for stop_at in (total // 4, total // 2):
            process = start("run", "imapscore", "--data", DATA / "items.jsonl", *words, env=environment)
            while len(server.calls) < stop_at and process.poll() is None:
                time.sleep(0.005)
            assert process.poll() is None
            process.kill()
            assert process.ended().code == -signal.SIGKILL
        assert run(server, killed, concurrency=4) == 0
        repeated = sum(count - 1 for count in sent(server).values())
    assert repeated <= 2 * 4  # the calls in flight when it was killed
    assert (killed / "imapscore_r1_m" / "imaps.jsonl").read_bytes() == (
        calm / "imapscore_r1_m" / "imaps.jsonl"
    ).read_bytes()


def distorted(stage: str, text: str, seeds: range = range(1, 100)) -> Oracle:
    """Says `text` instead of the answer, in one stage, for some seeds; `{}` in it is the answer."""
    return Oracle(lambda at, answer, seed: text.replace("{}", answer) if at == stage and seed in seeds else answer)


@pytest.mark.parametrize("stage", ["question", "label", "response", "relations"])
@pytest.mark.parametrize("text", ["", "I cannot do that.", "```\n```", "<think>{}</think>", "Inform-[term]-[value]"])
def test_what_cannot_be_read_is_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: str, text: str
) -> None:
    data = only(tmp_path, "en-2")
    with ModelServer(reply=distorted(stage, text, range(1, 4))) as server:
        assert run(server, tmp_path, data=data) == 0
        assert stages(server)[stage] == 6
    (healed,) = recorded(tmp_path).values()
    assert healed.failure is None
    assert healed.relations == RECORDINGS["en-2"].relations

    with ModelServer(reply=distorted(stage, text)) as server:
        assert run(server, tmp_path / "never", data=data) == 2  # no item has an extraction
        assert stages(server)[stage] == 9
        assert run(server, tmp_path / "never", data=data, round="r2") == 2
        assert stages(server)[stage] == 9
    (failed,) = recorded(tmp_path / "never").values()
    assert (failed.failure, failed.reason) == ("extraction_failed", f"{stage}: 0 of 3 samples could be read")
    (result,) = score_recordings([failed])
    assert (result.status, result.value) == (Status.EXTRACTION_FAILED, None)
    assert f"1 of 1 items: extraction_failed (first: item en-2: {failed.reason})" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["Sure!\n```\n{}\n```\nDone.", "<think>\nInform-x-y\n</think>\n{}", "**{}**"])
@pytest.mark.parametrize("stage", ["question", "label", "response", "relations"])
def test_prose_fences_and_thoughts_around_an_answer(tmp_path: Path, stage: str, text: str) -> None:
    with ModelServer(reply=distorted(stage, text)) as server:
        assert run(server, tmp_path, data=only(tmp_path, "zh-2")) == 0
        assert len(server.calls) == 12
    (recording,) = recorded(tmp_path).values()
    assert (recording.question, recording.label, recording.response, recording.relations) == (
        RECORDINGS["zh-2"].question,
        RECORDINGS["zh-2"].label,
        RECORDINGS["zh-2"].response,
        RECORDINGS["zh-2"].relations,
    )


def test_chinese_dashes_and_colons(tmp_path: Path) -> None:
    def chinese(stage: str, answer: str, seed: int) -> str:
        return answer.replace("-", "——") if stage != "relations" else answer.replace(":", "：").replace(",", "，")

    with ModelServer(reply=Oracle(chinese)) as server:
        run(server, tmp_path, data=only(tmp_path, "zh-1"))
    (recording,) = recorded(tmp_path).values()
    assert (recording.response, recording.relations) == (RECORDINGS["zh-1"].response, RECORDINGS["zh-1"].relations)


@pytest.mark.parametrize("stage", ["question", "label", "response"])
def test_samples_that_do_not_agree(tmp_path: Path, stage: str) -> None:
    def differing(at: str, answer: str, seed: int) -> str:
        kind = "Query-x{}-?" if stage == "question" else "Inform-treatment-x{}"
        return kind.format(seed) if at == stage else answer

    with ModelServer(reply=Oracle(differing)) as server:
        assert run(server, tmp_path, data=only(tmp_path, "en-2")) == 0
    (recording,) = recorded(tmp_path).values()
    assert (recording.failure, recording.reason) == ("no_agreement", f"{stage}: no pair in 2 of 3 samples")


@pytest.mark.parametrize(("min_votes", "kept"), [(2, 2), (3, 1)])
def test_votes_decide_what_is_kept(tmp_path: Path, min_votes: int, kept: int) -> None:
    def one_misses(stage: str, answer: str, seed: int) -> str:
        return answer.splitlines()[0] if stage == "label" and seed == 2 else answer

    with ModelServer(reply=Oracle(one_misses)) as server:
        run(server, tmp_path, data=only(tmp_path, "en-2"), min_votes=min_votes)
    (recording,) = recorded(tmp_path).values()
    assert len(recording.label.inform) == kept


def test_one_readable_sample_cannot_agree_with_itself(tmp_path: Path) -> None:
    unreadable = Oracle(lambda stage, answer, seed: "?" if stage == "relations" and seed % 3 != 1 else answer)
    with ModelServer(reply=unreadable) as server:
        run(server, tmp_path, data=only(tmp_path, "en-2"))
    (recording,) = recorded(tmp_path).values()
    assert (recording.failure, recording.reason) == ("no_agreement", "relations: 1 of 3 samples could be read")


def test_a_reply_that_was_cut_off_is_asked_again(tmp_path: Path) -> None:
    oracle = Oracle()

    def cut(request: dict[str, Any]) -> dict[str, Any] | str:
        answer = oracle(request)
        if stage_of(request) != "label" or request["seed"] > 3:
            return answer
        message = {"role": "assistant", "content": answer[: len(answer) - 3]}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "length"}], "usage": {}}

    with ModelServer(reply=cut) as server:
        run(server, tmp_path, data=only(tmp_path, "en-2"))
    (recording,) = recorded(tmp_path).values()
    assert recording.label == RECORDINGS["en-2"].label


def test_relations_in_other_words(tmp_path: Path) -> None:
    def spoken(stage: str, answer: str, seed: int) -> str:
        if stage != "relations":
            return answer
        names = {"e": "Exact", "b": "belonging", "c": "containment", "u": "unmatched"}
        lines = [json.loads(line) for line in answer.splitlines()]
        told = [
            json.dumps({"a": str(line["a"]), "b": line["b"], "relation": names[line["relation"]]})
            for line in lines
            if line["relation"] != "u"
        ]
        noise = ['{"a": 1, "b": 99, "relation": "e"}', '{"a": 1, "b": 2, "relation": "e"}', '{"a": "x"}', "{1: 2}"]
        return "\n".join([*told, *noise, told[0].replace("belonging", "exact")])

    with ModelServer(reply=Oracle(spoken)) as server:
        run(server, tmp_path, data=only(tmp_path, "en-2"))
    (recording,) = recorded(tmp_path).values()
    assert recording.relations == RECORDINGS["en-2"].relations
    assert recording.warnings == (
        'relations: a second relation of one pair: {"a": "1", "b": 3, "relation": "exact"}',
        'relations: an unknown number: {"a": 1, "b": 99, "relation": "e"}',
        'relations: not a relation: {"a": "x"}',
        "relations: not a relation: {1: 2}",
        'relations: not a value of A and one of B of the same term: {"a": 1, "b": 2, "relation": "e"}',
    )


def test_pairs_that_were_settled_are_no_news(tmp_path: Path) -> None:
    """The equal texts of zh-1 are numbered, as each has other pairs; a reply may relate them and nothing else."""
    settled = Oracle(lambda stage, answer, seed: answer.splitlines()[-1] if stage == "relations" else answer)
    with ModelServer(reply=settled) as server:
        assert run(server, tmp_path, data=only(tmp_path, "zh-1")) == 0
        assert len(server.calls) == 12
    (recording,) = recorded(tmp_path).values()
    assert (recording.failure, recording.warnings, recording.relations) == (None, (), {})


def test_warnings_of_the_parser_are_kept(tmp_path: Path) -> None:
    with ModelServer(reply=distorted("question", "Query-treatment")) as server:
        run(server, tmp_path, data=only(tmp_path, "en-2"))
    (recording,) = recorded(tmp_path).values()
    assert recording.warnings == ("question: line 1: Query without `-?`: 'treatment' is taken as the term",)


def test_warnings_of_replies_that_cannot_be_used_are_kept(tmp_path: Path) -> None:
    with ModelServer(reply=distorted("relations", '{"a": 77, "b": 2, "relation": "e"}')) as server:
        run(server, tmp_path, data=only(tmp_path, "en-2"))
    (recording,) = recorded(tmp_path).values()
    assert recording.failure == "extraction_failed"
    assert recording.warnings == ('relations: an unknown number: {"a": 77, "b": 2, "relation": "e"}',)


def test_half_a_surrogate_pair_does_no_harm(tmp_path: Path) -> None:
    with ModelServer(reply=distorted("response", "Inform-treatment-rest \ud83d")) as server:
        assert run(server, tmp_path, data=only(tmp_path, "en-2")) == 0
    (recording,) = recorded(tmp_path).values()
    assert recording.response.inform[0].value == "rest \ufffd"


def test_a_graph_spares_the_model_its_pairs(tmp_path: Path) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, data=only(tmp_path, "en-3", "en-5"), graph=DATA / "graph.tsv")
    asked = "\n".join(call.messages[-1]["content"] for call in server.calls if stage_of(call.body) == "relations")
    assert "kidney stone" in asked
    assert "glomerulonephritis" not in asked
    assert stages(server)["relations"] == 6
    found = recorded(tmp_path)
    assert found["en-3"].relations == RECORDINGS["en-3"].relations
    assert found["en-5"].relations == RECORDINGS["en-5"].relations


def test_what_a_graph_left_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tmp_path / "g.obo"
    graph.write_text("format-version: 1.2\nontology: t\n\n[Term]\nid: A\nname: a\nis_a: B\n", encoding="utf-8")
    with ModelServer(reply=Oracle()) as server:
        assert run(server, tmp_path, data=only(tmp_path, "en-2"), graph=graph) == 0
    assert f"warning: {graph}: A is_a B, which is not in the graph: left out" in capsys.readouterr().err


def test_g_eval_is_recorded_beside_the_imaps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(reply=Oracle()) as server:
        run(server, tmp_path, data=only(tmp_path, "en-2"), g_eval=True)
        assert stages(server)["g-eval"] == 6
    (recording,) = recorded(tmp_path).values()
    assert recording.scores == {"g-eval": 4.0, "g-eval+imap": 2.0}

    with ModelServer(reply=distorted("g-eval", "Rather good.")) as server:
        run(server, tmp_path / "unread", data=only(tmp_path, "en-2"), g_eval=True)
    (recording,) = recorded(tmp_path / "unread").values()
    assert (recording.failure, recording.scores) == (None, {})
    lost = "g-eval: 0 of 3 samples could be read"
    assert recording.warnings == ("g-eval+imap: 0 of 3 samples could be read", lost)
    assert "1 of 1 items lack a rating (first: item en-2: g-eval" in capsys.readouterr().out


def test_items_that_the_endpoint_failed_are_owed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = only(tmp_path, "en-2", "en-3")

    def broken(call: Call) -> Any:
        return status(500) if "boil" in call.messages[-1]["content"] else None

    with ModelServer(reply=Oracle(), faults=broken) as server:
        assert run(server, tmp_path, data=data) == 2
    failed = recorded(tmp_path)["en-2"]
    assert failed.failure == "extraction_failed"
    assert "500" in failed.reason
    said = capsys.readouterr().out
    assert "Owed and not graded: 1" in said
    assert "Continue: medagent run imapscore --" in said
    with ModelServer(reply=Oracle()) as server:
        assert run(server, tmp_path, data=data) == 0
        assert {stage_of(call.body) for call in server.calls} == {"question", "label", "response", "relations"}
        assert len(server.calls) == 12
    assert recorded(tmp_path)["en-2"].relations == RECORDINGS["en-2"].relations


def test_a_refused_key_stops_the_run(tmp_path: Path) -> None:
    with ModelServer(faults=lambda call: status(401, message="no such key")) as server:
        with pytest.raises(StopRunError, match="no such key"):
            run(server, tmp_path)
        assert len(server.calls) <= 8  # those in flight; none takes their places


def test_limits_end_a_run_gracefully(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(reply=Oracle()) as server:
        assert run(server, tmp_path, max_tokens_total=1, concurrency=1) == 2
        assert "11 of 12 items are still owed" in capsys.readouterr().err
        assert not (tmp_path / "imapscore_r1_m" / "imaps.jsonl").exists()
        assert run(server, tmp_path) == 0
    assert set(sent(server).values()) == {1}


def test_replies_that_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "imapscore-replies").write_text("this is no folder")
    with ModelServer(reply=Oracle()) as server, pytest.raises(UserError, match="imapscore-replies: the folder for"):
        run(server, tmp_path)


@pytest.mark.parametrize("content", ["no JSON", "[]", "{}", '{"text": 1}'])
def test_a_kept_reply_that_is_damaged_stops_the_run_and_is_named(tmp_path: Path, content: str) -> None:
    with ModelServer(reply=Oracle()) as server:
        assert run(server, tmp_path) == 0
        first = next((tmp_path / "imapscore-replies").rglob("*.json"))
        first.write_text(content)
        (tmp_path / "imapscore_r1_m" / "episodes.jsonl").unlink()
        with pytest.raises(StopRunError, match=f"{first.name}: is damaged; remove it"):
            run(server, tmp_path)


def test_from_the_command_line_to_the_correlations(tmp_path: Path) -> None:
    def ran(*words: object) -> str:
        done = medagent(*words)
        assert done.code == 0, done.err
        return done.out

    data = str(DATA / "items.jsonl")
    with ModelServer(reply=Oracle()) as server:
        options = ["--base-url", server.url, "--results-dir", str(tmp_path), "--round", "r7", "--g-eval"]
        ran("run", "imapscore", "--data", data, "--model", "org/m", "--graph", DATA / "graph.tsv", *options)
        assert server.calls[0].body["temperature"] == 0.9
    imaps = str(tmp_path / "imapscore_r7_org--m" / "imaps.jsonl")
    assert "mean 1.7903 over 12 of 12 items" in ran("imapscore", "score", imaps)
    assert "7/5" in ran("imapscore", "explain", imaps, "en-3")
    text = ran("imapscore", "correlate", data, "--imaps", imaps, "--draws", "10")
    assert "undefined: g-eval is constant (4)" in " ".join(text.split())
    assert "no model is given" in medagent("run", "imapscore", "--data", data).err


def test_data_that_cannot_be_read(tmp_path: Path) -> None:
    with ModelServer() as server, pytest.raises(Exception, match=r"none\.jsonl: cannot be read"):
        run(server, tmp_path, data=tmp_path / "none.jsonl")
