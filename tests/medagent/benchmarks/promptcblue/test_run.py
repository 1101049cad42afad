"""`medagent run promptcblue` over a real OpenAI-compatible server on the loopback interface."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.promptcblue.benchmark import Promptcblue
from medagent.benchmarks.promptcblue.settings import MINI, PromptcblueSettings
from medagent.core.errors import StopRunError, UserError
from refsol.promptcblue import ProblemsError
from tests import runs
from tests.command import medagent
from tests.loopback import Call, Fault, ModelServer, status
from tests.refsol.promptcblue.vectors import jsonl, line, text, value
from tests.starts import Started, start

Lines = list[dict[str, Any]]


def vector_lines() -> tuple[Lines, dict[str, str]]:
    """The recorded predictions as a test file without targets, each prompt its own, and the answer to each prompt."""
    recorded = [json.loads(row) for row in text("predictions.jsonl").splitlines()]
    lines = [{**row, "input": f"第{number}题", "target": ""} for number, row in enumerate(recorded)]
    return lines, {f"第{number}题": row["target"] for number, row in enumerate(recorded)}


LINES, ANSWERS = vector_lines()
SMALL = [row for first in range(0, len(LINES), 80) for row in LINES[first : first + 2]]  # two lines of each task


def answer(request: dict[str, Any]) -> str:
    return ANSWERS[prompt(request)]


def prompt(request: dict[str, Any]) -> str:
    return str(request["messages"][-1]["content"])


def asked(server: ModelServer) -> Counter[str]:
    return Counter(prompt(call.body) for call in server.calls)


class Run:
    """A test file in a folder of its own, to be run once or more over servers."""

    def __init__(self, folder: Path, lines: Sequence[dict[str, Any]]) -> None:
        self.folder = folder
        self.data = folder / "test.json"
        self.data.write_bytes(jsonl(*lines))
        self.results = folder / "results" / "promptcblue_r1_m"

    def __call__(self, server: ModelServer, **changes: Any) -> int:
        options = {
            "data": self.data,
            "results_dir": self.folder / "results",
            "model": "m",
            "base_url": [server.url],
        }
        settings = runs.impatient(PromptcblueSettings, retries=1)(**{**options, **changes})
        return runs.run(Promptcblue(), settings)

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.results.iterdir()} - {
            ".lock",
            ".files",
            "run.json",
            "items.jsonl",
            "report.json",
            "episodes.jsonl",
            "scores.jsonl",
        }

    def predictions(self, name: str = "test_predictions.json") -> Lines:
        return [json.loads(row) for row in (self.results / name).read_text("utf-8").splitlines()]


def words(text: str) -> str:
    """A text with one blank between words."""
    return " ".join(text.split())


def filled(lines: Sequence[dict[str, Any]]) -> Lines:
    return [{**row, "target": ANSWERS[row["input"]]} for row in lines]


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.json"
    path.write_text(text("gold.json"), "utf-8")
    return path


@pytest.fixture
def small_gold(tmp_path: Path) -> Path:
    path = tmp_path / "small_gold.json"
    path.write_text(json.dumps({task: items[:2] for task, items in value("gold.json").items()}), "utf-8")
    return path


def test_a_run_is_filled_parsed_and_scored(tmp_path: Path, gold: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path, LINES)
    with ModelServer(answer) as server:
        assert run(server, gold=gold, concurrency=64) == 0
        assert run.predictions() == filled(LINES)
        assert run.files == {"test_predictions.json", "results.json", "scores.json"}
        scores = json.loads((run.results / "scores.json").read_text("utf-8"))
        assert scores["scoreJson"] == pytest.approx(value("scores.json")["scoreJson"], abs=1e-9)
        assert "score 1280 63.00" in words(capsys.readouterr().out)

        calls = len(server.calls)
        assert run(server, gold=gold) == 0
        assert len(server.calls) == calls
        out, err = capsys.readouterr()
        assert "is complete and was not changed" in err
        assert "score 1280 63.00" in words(out)


def test_an_edit_of_the_test_file_does_not_reach_a_run_in_progress(tmp_path: Path) -> None:
    run = Run(tmp_path, LINES[:8])
    whole = run.data.read_bytes()

    def edit(request: dict[str, Any]) -> str:
        run.data.write_bytes(whole.replace("题".encode(), "问".encode()))
        return answer(request)

    with ModelServer(edit) as server:
        assert run(server, concurrency=1) == 0
        assert run.predictions() == filled(LINES[:8])
        with pytest.raises(UserError, match="the run uses other settings"):
            run(server)


def test_a_run_that_is_killed_goes_on_and_ends_complete_and_in_order(tmp_path: Path) -> None:
    lines = LINES[:1000]
    run = Run(tmp_path, lines)
    with ModelServer(answer, latency=0.02) as server:
        command = ["run", "promptcblue", "--data", "test.json", "--model", "m", "--base-url", server.url]
        process = start(*command, cwd=tmp_path)
        try:
            wait_for(lambda: len(journal(run)) >= 300, process)
        finally:
            process.kill()  # SIGKILL: nothing gets a chance to tidy up
            process.ended()
        durable = {json.loads(row)["unit"] for row in journal(run)}
        assert 300 <= len(durable) < 1000
        assert run.files == set()

        done = start(*command, cwd=tmp_path).ended()
        assert done.code == 0, done.err
        calls = asked(server)
    assert run.predictions() == filled(lines)
    units = {f"{row['task_dataset']}#{number}": row["input"] for number, row in enumerate(lines, 1)}
    assert {calls[units[unit]] for unit in durable} == {1}
    assert calls.total() <= 1000 + 16


def journal(run: Run) -> list[str]:
    path = run.results / "episodes.jsonl"
    return [row for row in path.read_text("utf-8").split("\n")[:-1] if row] if path.exists() else []


def wait_for(what: Callable[[], bool], process: Started) -> None:
    while not what():
        assert process.poll() is None, "the run ended before it was killed"
        time.sleep(0.01)


def failing(*prompts: str, fault: Fault) -> Callable[[Call], Fault | None]:
    return lambda call: fault if prompt(call.body) in prompts else None


def test_while_a_line_is_owed_only_the_partial_file_is_written(
    tmp_path: Path, small_gold: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path, SMALL)
    owed = [SMALL[1]["input"], SMALL[20]["input"]]
    with ModelServer(answer, faults=failing(*owed, fault=status(400, message="no such thing"))) as server:
        assert run(server, gold=small_gold) == 2
    assert run.files == {"test_predictions.partial.json"}
    answered = [row for row in SMALL if row["input"] not in owed]
    assert run.predictions("test_predictions.partial.json") == filled(answered)
    out, err = capsys.readouterr()
    assert err == ""
    assert "CMeEE-V2#2" in out
    assert "no such thing" in out
    assert "2 of 32 lines are owed, so nothing was parsed or scored" in out
    assert "F1" not in out

    with ModelServer(answer) as server:
        assert run(server, gold=small_gold) == 0
        assert sorted(asked(server)) == sorted(owed)
    assert run.files == {"test_predictions.json", "results.json", "scores.json"}
    assert run.predictions() == filled(SMALL)


def test_many_failures_are_not_all_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path, LINES[:24])
    owed = [row["input"] for row in LINES[:24:2]]
    with ModelServer(answer, faults=failing(*owed, fault=status(400))) as server:
        assert run(server, concurrency=1) == 2
    failed = [line for line in capsys.readouterr().out.splitlines() if "model_error" in line]
    assert [line.split()[0] for line in failed] == ["12"]


def test_a_prompt_over_the_context_limit_is_owed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(tmp_path, LINES[:3])
    fault = status(400, message="maximum context length is 8")
    with ModelServer(answer, faults=failing(LINES[1]["input"], fault=fault)) as server:
        assert run(server) == 2
    assert "(first: CMeEE-V2#2)" in capsys.readouterr().out
    assert run.predictions("test_predictions.partial.json") == filled([LINES[0], LINES[2]])


def test_a_limit_leaves_lines_owed_and_the_same_command_with_a_higher_one_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path, LINES[:30])
    with ModelServer(answer) as server:
        assert run(server, max_tokens_total=100, concurrency=1) == 2
        assert "--max-tokens-total 100 is reached" in capsys.readouterr().err
        assert 0 < len(run.predictions("test_predictions.partial.json")) < 30
        assert run(server) == 0
        assert asked(server).total() == 30
    assert run.predictions() == filled(LINES[:30])


def test_a_refused_key_stops_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, LINES[:5])
    with (
        ModelServer(answer, faults=lambda _: status(401, message="bad key")) as server,
        pytest.raises(StopRunError, match=r"bad key.*\(the run stopped; finished units are saved\)"),
    ):
        run(server)
    assert run.files == set()


def test_other_settings_are_refused_and_the_gold_is_no_setting(tmp_path: Path, small_gold: Path) -> None:
    run = Run(tmp_path, SMALL)
    with ModelServer(answer) as server:
        assert run(server) == 0
        assert run.files == {"test_predictions.json"}
        assert run(server, gold=small_gold) == 0
        with pytest.raises(UserError, match=r"temperature 0\.0 → 0\.5"):
            run(server, temperature=0.5)
        run.data.write_bytes(jsonl(*SMALL[1:]))
        with pytest.raises(UserError, match=r"data-digest .*medagent run promptcblue .*--data"):
            run(server)


def test_overwriting_starts_anew(tmp_path: Path) -> None:
    run = Run(tmp_path, LINES[:2])
    with ModelServer(answer) as server:
        assert run(server) == 0
    with ModelServer(answer, faults=failing(LINES[0]["input"], fault=status(400))) as server:
        assert run(server, overwrite=True) == 2
    assert run.files == {"test_predictions.partial.json"}


def test_some_tasks_are_scored_as_a_part(tmp_path: Path, gold: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [row for row in LINES if row["task_dataset"] in ("KUAKE-IR", "CMeIE")]
    run = Run(tmp_path, lines)
    with ModelServer(answer) as server:
        assert run(server, gold=gold, allow_empty=0.1) == 0  # some recorded answers are empty
    official = value("scores.json")["scoreJson"]
    mean = (official["CMeIE-Micro-F1"] + official["KUAKE-IR-Micro-F1"]) / 2
    assert f"mean of 2 tasks 160 {mean:.2f}" in words(capsys.readouterr().out)
    assert run.files == {"test_predictions.json", "results.json"}


@pytest.mark.parametrize(("strip", "target"), [(False, "<think>嗯</think>\n好"), (True, "好")])
def test_thinking_is_cut_where_asked(tmp_path: Path, strip: bool, target: str) -> None:
    run = Run(tmp_path, [line()])
    with ModelServer("<think>嗯</think>\n好") as server:
        assert run(server, strip_thinking=strip) == (0 if strip else 2)
    assert run.predictions()[0]["target"] == target


def test_lines_need_no_target_and_keep_what_they_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = line(note="n", target=None)
    del bare["sample_id"]
    run = Run(tmp_path, [bare])
    run.data.write_bytes(b"\xef\xbb\xbf\n" + run.data.read_bytes())
    with ModelServer("好") as server:
        assert run(server) == 0
    assert run.predictions() == [{**bare, "target": "好"}]
    assert [row.split(": ", 2)[2] for row in capsys.readouterr().err.splitlines() if "warning" in row] == [
        "line 1: blank, skipped",
        "line 2: no sample_id; xxxx is used",
    ]


BAD_FILES = {
    "broken": (
        b"{\n" + jsonl(line("CMeIE-V2"), line(input=3)),
        ["line 1: not JSON", "line 2, sample", "line 3, sample"],
    ),
    "no choices": (jsonl(line("CMeIE")), ["answer_choices is not a list, and CMeIE needs one"]),
    "empty": (b"", ["whole file: contains no lines"]),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_test_file_is_refused_before_the_first_call(name: str, tmp_path: Path) -> None:
    content, messages = BAD_FILES[name]
    run = Run(tmp_path, [])
    run.data.write_bytes(content)
    with ModelServer() as server:
        with pytest.raises((UserError, ProblemsError)) as caught:
            run(server)
        assert server.calls == []
    assert all(message in str(caught.value) for message in messages)


def test_a_gold_that_does_not_fit_is_refused_before_the_first_call(tmp_path: Path, gold: Path) -> None:
    run = Run(tmp_path, [*LINES[:-1], {**LINES[-1], "sample_id": "other"}])
    with ModelServer() as server:
        with pytest.raises(ProblemsError) as caught:
            run(server, gold=gold)
        with pytest.raises(ProblemsError, match="cannot be read"):
            run(server, gold=tmp_path / "away.json")
        assert server.calls == []
    assert str(caught.value).splitlines() == [
        f"{run.data}: IMCS-V2-SR: samples missing: {LINES[-1]['sample_id']}",
        f"{run.data}: IMCS-V2-SR: samples not in the gold: other",
    ]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("TOKEN=abc", 1, "gold.json: not JSON"),
        ("{}", 0, "Not scored: the gold file contains no answers for these lines."),
    ],
)
def test_a_gold_that_was_changed_after_the_run_is_one_line(tmp_path: Path, text: str, code: int, words: str) -> None:
    gold_file = tmp_path / "gold.json"
    gold_file.write_bytes((MINI / "gold.json").read_bytes())
    ran = medagent(
        "run", "promptcblue", "--agent", "gold", "--limit", 2, "--gold", gold_file, "--results-dir", tmp_path
    )
    assert ran.code == 0, ran.err
    gold_file.write_text(text)
    graded = medagent("grade", tmp_path / "promptcblue_r1_gold")
    assert graded.code == code
    assert words in graded.out + graded.err
    assert "Traceback" not in graded.err


def test_what_the_command_line_can_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Run(tmp_path, LINES[:1])
    monkeypatch.chdir(tmp_path)
    for options, message in (
        (["--data", "test.json"], "medagent: no model is given. Choose one: "),
        (
            ["--data", "away.json", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"],
            "medagent: away.json: cannot be",
        ),
        (["--data", "test.json", "--model", "m", "--round", "a/b"], "medagent: --round: "),
    ):
        ran = medagent("run", "promptcblue", *options)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith(message)
