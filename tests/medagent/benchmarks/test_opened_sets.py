"""A set is opened once in a process, with what was computed for all its tasks, until its files change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from medagent.benchmarks.base import find
from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from tests.command import medagent
from tests.shared_data import ROOT

SETS = Path(__file__).parents[3] / "medagent" / "benchmarks"
FOLDERS = {"medagentbench": "medagentbench/tasks/data/synthetic", "psb-300": "psb300/data/synthetic"}


def _benchmark(name: str) -> ClinicalBenchmark:
    benchmark = find(name)
    assert isinstance(benchmark, ClinicalBenchmark)
    return benchmark


@pytest.fixture(params=FOLDERS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The name of a benchmark and a copy of its bundled set."""
    folder = tmp_path / "set"
    shutil.copytree(SETS / FOLDERS[request.param], folder)
    return request.param, folder


def test_an_unchanged_set_keeps_what_was_computed_for_it(opened: tuple[str, Path]) -> None:
    name, folder = opened
    first = _benchmark(name).open_set(_benchmark(name).named_source(str(folder), None))
    second = _benchmark(name).open_set(_benchmark(name).named_source(str(folder), None))
    rules = next(iter(_benchmark(name).rules))
    assert second.facts is first.facts
    assert _benchmark(name).baselines(second, rules) is _benchmark(name).baselines(first, rules)


def test_a_changed_set_is_opened_again(opened: tuple[str, Path]) -> None:
    name, folder = opened
    benchmark = _benchmark(name)
    source = benchmark.named_source(str(folder), None)
    before = benchmark.open_set(source)
    manifest = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({**manifest, "clock": "2030-01-01T00:00:00+00:00"}))
    after = benchmark.open_set(source)
    assert (after.tasks.clock.year, before.tasks.clock.year != 2030) == (2030, True)
    assert after.facts is not before.facts


def test_what_a_server_answers_is_not_kept(opened: tuple[str, Path]) -> None:
    name, folder = opened
    benchmark = _benchmark(name)
    source = benchmark.named_source(str(folder), None).model_copy(update={"fhir": "http://localhost:9/fhir"})
    assert benchmark.open_set(source) is not benchmark.open_set(source)


def test_another_set_of_the_same_name_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "outsider"))
    digests = []
    for seed in ("one", "two"):
        (tmp_path / seed).mkdir()
        monkeypatch.chdir(tmp_path / seed)
        words = ("--like", "renal", "--seed", seed, "--patients", 20, "--per-type", 2)
        assert medagent("data", "new", "set", *words).code == 0
        benchmark = _benchmark("renal")
        digests.append(benchmark.open_set(benchmark.named_source("set", None)).tasks.digest)
    assert digests[0] != digests[1]
