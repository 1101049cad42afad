"""Answers in the files of other tools, in the layouts that these tools write, and the items they are paired with."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zipfile_zstd

from refsol.answers import AskedItem, match_answers, read_answers
from refsol.errors import InputError

ITEMS = [
    AskedItem("q1/hu", "Ki írta?", frozenset({"q1"}), "hu", "Kölcsey"),
    AskedItem("q2/hu", "Hol van?", frozenset({"q2"}), "hu", "Szeged"),
]
SAID = ["Kölcsey Ferenc", "Nem tudom"]


def write(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def document(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def plain(folder: Path) -> Path:
    rows = [{"id": "q1", "answer": SAID[0]}, {"id": "q2", "answer": SAID[1], "language": "hu"}]
    return write(folder / "m.jsonl", *rows)


def run(folder: Path) -> Path:
    document(folder / "run" / "run.json", {"settings": {"model": "m"}})
    rows = [
        {"unit": "q1/hu", "status": "model_error"},
        {"unit": "q1/hu", "status": "completed", "reply": SAID[0]},
        {"unit": "q2/hu", "status": "completed", "reply": SAID[1], "finish_reason": "stop"},
    ]
    write(folder / "run" / "episodes.jsonl", *rows)
    return folder / "run"


def opencompass(folder: Path) -> Path:
    for part, said in enumerate(SAID):
        entry = {"origin_prompt": [{"role": "HUMAN", "prompt": f"Q: {ITEMS[part].question}"}], "prediction": said}
        document(folder / "predictions" / "m" / f"OpenHuEval_HuSimpleQA_250208-prompt_hu_{part}.json", {"0": entry})
    return folder


def lm_eval(folder: Path) -> Path:
    rows = [
        {
            "doc_id": n,
            "doc": {"question": item.question, "answer": "x"},
            "target": "x",
            "arguments": {"gen_args_0": {"arg_0": "…"}},
            "resps": [[SAID[n]]],
            "filtered_resps": ["cut"],
        }
        for n, item in enumerate(ITEMS)
    ]
    write(folder / "m" / "samples_simpleqa_hu_2026-01-02T03-04-05.678.jsonl", *rows)
    return folder / "m"


def inspect_samples() -> list[dict[str, Any]]:
    return [
        {
            "id": n + 7,
            "epoch": 1,
            "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": item.question}],
            "target": "x",
            "output": {
                "model": "m",
                "choices": [
                    {
                        "message": {
                            "role": "assistant",
                            "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": SAID[n]}],
                        },
                        "stop_reason": "max_tokens" if n else "stop",
                    }
                ],
            },
        }
        for n, item in enumerate(ITEMS)
    ]


def inspect_json(folder: Path) -> Path:
    log = {"version": 2, "status": "success", "eval": {"model": "m", "task": "t"}, "samples": inspect_samples()}
    return document(folder / "log.json", log)


def inspect_zip(folder: Path, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(folder / "log.eval", "w", compression) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m"}}))
        for sample in inspect_samples():
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
    return folder / "log.eval"


def inspect_zstandard(folder: Path) -> Path:
    return inspect_zip(folder, zipfile_zstd.ZIP_ZSTANDARD)


def helm_states(folder: Path) -> Path:
    states = [
        {
            "instance": {"id": f"id{n}", "input": {"text": item.question}, "references": [], "split": "test"},
            "train_trial_index": 0,
            "request": {"prompt": "…"},
            "result": {"success": True, "completions": [{"text": SAID[n], "finish_reason": {"reason": "stop"}}]},
        }
        for n, item in enumerate(ITEMS)
    ]
    value = {"adapter_spec": {"method": "generation", "model": "m"}, "request_states": states}
    document(folder / "m" / "scenario_state.json", value)
    return folder / "m"


def helm_predictions(folder: Path) -> Path:
    document(
        folder / "m" / "instances.json",
        [{"id": f"id{n}", "input": {"text": item.question}} for n, item in enumerate(ITEMS)],
    )
    rows = [{"instance_id": f"id{n}", "train_trial_index": 0, "predicted_text": said} for n, said in enumerate(SAID)]
    document(folder / "m" / "display_predictions.json", rows)
    return folder / "m"


LAYOUTS = (
    plain, run, opencompass, lm_eval, inspect_json, inspect_zip, inspect_zstandard, helm_states, helm_predictions,
)  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_each_layout_is_read_and_paired(tmp_path: Path, layout: Callable[[Path], Path]) -> None:
    found = read_answers(layout(tmp_path))
    matched = match_answers(found, ITEMS)
    assert {key: answer.text for key, answer in matched.items()} == {("q1/hu", 1): SAID[0], ("q2/hu", 1): SAID[1]}
    assert found.model == "m"
    if layout in (inspect_json, inspect_zip, inspect_zstandard):
        assert (matched["q2/hu", 1].finish_reason, matched["q2/hu", 1].reasoning) == ("length", "hm")


def test_promptcblue_predictions_are_answers_too(tmp_path: Path) -> None:
    row = {"input": "问", "target": "答", "answer_choices": None, "task_type": "x", "task_dataset": "MedDG"}
    path = write(tmp_path / "test_predictions.json", row | {"sample_id": "s-1"})
    items = [
        AskedItem("MedDG#1", "问", frozenset({"s-1"}), "MedDG"),
        AskedItem("KUAKE-IR#2", "?", frozenset({"s-1"}), "K"),
    ]
    assert match_answers(read_answers(path), items)["MedDG#1", 1].text == "答"


def test_repetitions_are_trials(tmp_path: Path) -> None:
    rows = [{"id": "q1", "answer": "a"}, {"id": "q1", "answer": "b", "trial": 2}]
    found = match_answers(read_answers(write(tmp_path / "a.jsonl", *rows)), ITEMS)
    assert {key: answer.text for key, answer in found.items()} == {("q1/hu", 1): "a", ("q1/hu", 2): "b"}


def test_a_number_that_is_the_tools_own_count_gives_way_to_the_question(tmp_path: Path) -> None:
    items = [AskedItem("1", "Első?"), AskedItem("2", "Második?")]
    rows = [{"id": 1, "answer": "b", "question": "Második?"}, {"id": 2, "answer": "a", "question": "Első?"}]
    found = match_answers(read_answers(write(tmp_path / "a.jsonl", *rows)), items)
    assert {key: answer.text for (key, _), answer in found.items()} == {"2": "b", "1": "a"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "q9", "answer": "x"}], ":1: q9 does not match any item of the data"),
        ([{"id": "q1", "answer": "x"}, {"id": "q1", "answer": "y"}], ":2: second answer to q1/hu"),
        ([{"id": "q1", "answer": 5}], ":1: answer: is not a text"),
        ([{"id": "q1", "answer": "x"}, {"id": "q2"}], ":2: answer: is missing"),
        ([{"id": None, "answer": "x"}], ":1: id: is neither a text nor a whole number"),
        ([{"id": "q1", "answer": "x", "trial": 0}], ":1: trial: is not a whole number from 1"),
        ([{"name": "q1"}], ":1: is not an answer (it needs id and answer)"),
        ([{"doc_id": 0, "doc": {}, "resps": [[0.5, True]]}], "only generated answers can be read"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, rows: list[Any], message: str) -> None:
    path = write(tmp_path / "a.jsonl", *rows)
    with pytest.raises(InputError) as raised:
        match_answers(read_answers(path), ITEMS)
    assert message in str(raised.value)


def test_two_filters_of_an_answer_are_one_answer(tmp_path: Path) -> None:
    folder = lm_eval(tmp_path)
    (file,) = folder.iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    write(file, *({**row, "filter": name} for name in ("strict", "flexible") for row in rows))
    assert len(match_answers(read_answers(folder), ITEMS)) == 2


@pytest.mark.parametrize("layout", [plain, lm_eval])
def test_a_line_that_is_cut_loses_no_answer(tmp_path: Path, layout: Callable[[Path], Path]) -> None:
    """Only our own journal may end inside a line, since a stopped run continues there."""
    layout(tmp_path)
    (file,) = tmp_path.rglob("*.jsonl")
    file.write_text(file.read_text()[:-9])
    with pytest.raises(InputError, match=":2: is not JSON"):
        read_answers(file)
    journal = run(tmp_path) / "episodes.jsonl"
    journal.write_text(journal.read_text()[:-9])
    assert len(read_answers(journal.parent).answers) == 1


def test_at_most_twenty_faults_are_listed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", *({"id": f"x{n}", "answer": ""} for n in range(50)))
    with pytest.raises(InputError) as raised:
        match_answers(read_answers(path), ITEMS)
    assert len(str(raised.value).splitlines()) == 21
    assert str(raised.value).endswith("and 30 more")


def test_an_answer_must_say_which_language_it_is(tmp_path: Path) -> None:
    items = [*ITEMS, AskedItem("q1/en", "Ki írta?", frozenset({"q1"}), "en")]
    with pytest.raises(InputError, match="could belong to en, hu; add the name"):
        match_answers(read_answers(write(tmp_path / "a.jsonl", {"id": "q1", "answer": "x"})), items)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        1,
        {"samples": 1, "eval": 2},
        {"request_states": [1]},
        {"0": 1},
        [{"predicted_text": []}],
        {"0": {"gold": 1}},
        {"eval": {}, "samples": [{"id": 1, "epoch": "one", "output": {"completion": "x"}}]},
        {"request_states": [{"instance": {"id": "1"}, "train_trial_index": "a"}]},
    ],
    ids=str,
)
def test_documents_of_another_form_are_one_clear_error(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InputError) as raised:
        match_answers(read_answers(document(tmp_path / "x.json", value)), ITEMS)
    assert str(tmp_path) in str(raised.value)


def test_a_log_that_this_python_cannot_unpack_names_the_way_on(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['zipfile_zstd'] = None\n"
        "from pathlib import Path; from refsol.answers import read_answers\n"
        f"read_answers(Path({str(inspect_zstandard(tmp_path))!r}))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if sys.version_info < (3, 14):
        assert "is compressed with zstandard; `pip install zipfile-zstd`" in ran.stderr


def test_folders_and_zips_that_are_none_of_these(tmp_path: Path) -> None:
    (tmp_path / "x.eval").write_bytes(b"PK")
    with pytest.raises(InputError, match="is not an Inspect log"):
        read_answers(tmp_path / "x.eval")
    for name in ("a", "b"):
        document(tmp_path / "predictions" / name / "ds.json", {"0": {"prediction": "x"}})
    with pytest.raises(InputError, match="contains answers of several models; name one"):
        read_answers(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="contains no readable answers"):
        read_answers(tmp_path / "empty")
