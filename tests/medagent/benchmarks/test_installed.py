"""An installed benchmark of task types has every command of the bundled ones; one without types says so in a line."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from medagent.benchmarks.base import find, of_kind
from tests.command import medagent
from tests.shared_data import ROOT

OUTSIDER = ROOT / "tests" / "outsider"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(OUTSIDER))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of the installed benchmark, from a seed."""
    folder = tmp_path_factory.mktemp("installed") / "set"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OUTSIDER))
        words = ("--like", "renal", "--seed", "one", "--patients", 20, "--per-type", 4)
        ran = medagent("data", "new", folder, *words)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == f"Run it: medagent run renal --dataset {folder} --agent reference"
    return folder


def test_the_package_has_at_most_60_lines() -> None:
    assert len((OUTSIDER / "outsider" / "renal.py").read_text("utf-8").splitlines()) <= 60


def test_its_set_is_verified_and_checked(made: Path) -> None:
    verified = medagent("data", "verify", made, "--seed", "one")
    assert (verified.code, verified.out) == (0, f"{made}: every byte follows from the seed\n")
    refused = medagent("data", "verify", made, "--seed", "two")
    assert (refused.code, "its SHA-256 is not the one" in refused.out) == (1, True)
    checked = medagent("data", "check", made)
    assert checked.code == 0, checked.err
    assert "8 tasks (4 repeat_potassium, 4 last_magnesium), digest " in checked.out
    assert "warning" not in checked.out


def test_a_format_of_another_version_has_one_line(made: Path, tmp_path: Path) -> None:
    document = json.loads((made / "dataset.json").read_text("utf-8"))
    assert (document["format"], document["benchmark"]) == (1, "renal")
    for changed, stated in (({**document, "format": 2}, "format 2"), ({"name": "x"}, "a format without a version")):
        (tmp_path / "dataset.json").write_text(json.dumps(changed), "utf-8")
        ran = medagent("run", "renal", "--dataset", tmp_path, "--agent", "nop")
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert f"{stated}; this version of medagent reads format 1: make the set again" in ran.err


def test_its_agents_floors_and_table_follow_from_the_types(made: Path, tmp_path: Path) -> None:
    words = ("--dataset", made, "--results-dir", tmp_path, "--quiet", "--json")
    report = json.loads(medagent("run", "renal", "--agent", "reference", *words).out)
    assert report["overall"]["counts"]["right"] == report["overall"]["n"] == 8
    lines = {line["name"]: line for section in report["table"] for line in section["lines"]}
    assert {"repeat_potassium", "last_magnesium", "baseline nop", "baseline constant", "baseline blind"} <= lines.keys()
    nop = json.loads(medagent("run", "renal", "--agent", "nop", *words).out)
    right = nop["overall"]["counts"]["right"]
    assert (
        right
        == {line["name"]: line for section in nop["table"] for line in section["lines"]}["baseline nop"]["counts"][
            "right"
        ]
    )
    graded = json.loads(medagent("grade", tmp_path / "renal_r1_reference", "--json").out)
    assert graded["overall"]["counts"]["right"] == 8


def test_it_has_twins(made: Path, tmp_path: Path) -> None:
    ran = medagent("data", "twins", made, "--out", tmp_path / "twins")
    assert ran.code == 0, ran.err
    assert "repeat_potassium: 4 pairs, 0 items left out" in ran.out
    words = ("--dataset", tmp_path / "twins", "--results-dir", tmp_path, "--quiet", "--json")
    report = json.loads(medagent("run", "renal", "--agent", "reference", *words).out)
    assert report["twins"]["right_and_read"]["right"] == report["overall"]["n"] > 0
    again = medagent("data", "verify", tmp_path / "twins", "--seed", "one")
    assert (again.code, "follows from its set, not from a seed" in again.err) == (1, True)


def test_its_tasks_are_exported_and_graded_alone(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "harbor"
    ran = medagent("export", "harbor", "renal", out, "--dataset", made, "--ids", "repeat_potassium_1")
    assert ran.code == 0, ran.err
    tests = out / "repeat_potassium_1" / "tests"
    assert {"dataset.json", "reads.jsonl", "tasks.jsonl"} <= {file.name for file in tests.iterdir()}
    assert (out / "repeat_potassium_1" / "solution").is_dir(), "the reference agent is right by the packed files"


def test_a_fhir_benchmark_without_types_has_no_twins(tmp_path: Path) -> None:
    ran = medagent("data", "twins", "births", "--out", tmp_path / "twins")
    assert (ran.code, ran.err) == (
        1,
        "medagent: births: is not made of task types, whose rules decide what is right, so it has no twins\n",
    )


HEAD = """
from typing import Annotated

import medagent
from medagent import clinical as c

POTASSIUM = c.Lab("K", c.LOINC, "potassium", unit="mmol/L")


class Potassium(c.TaskType):
    name = "potassium"
    text = "Potassium of {mrn}?"

    def rule(self, chart):
        last = chart.latest(POTASSIUM)
        return c.answer([-1] if last is None else [last.value])
"""
BENCHMARK = """

class Salts(medagent.ClinicalBenchmark[medagent.ClinicalSettings]):
    name = "salts"
    types = (Potassium(),)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Writes and installs a package `salts` with a benchmark, and with further entry points."""
    site = tmp_path / "site"
    info = site / "salts-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: salts\nVersion: 1.0\n", "utf-8")
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)

    def write(source: str, **entry_points: str) -> None:
        (site / "salts.py").write_text(source, "utf-8")
        named = {"salts": "salts:Salts", **entry_points}
        lines = "".join(f"{name} = {goal}\n" for name, goal in named.items())
        (info / "entry_points.txt").write_text(f"[medagent.benchmarks]\n{lines}", "utf-8")
        importlib.invalidate_caches()
        sys.modules.pop("salts", None)

    yield write
    sys.modules.pop("salts", None)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (
            "{mrn}",
            "{patient}",
            "salts.py:12: the text of potassium contains the unknown placeholder {patient}; use {mrn}",
        ),
        ("of {mrn}", "", "salts.py:12: the text of potassium must name the patient: {mrn}"),
        ('"Potassium of {mrn}?"', '""', "salts.py:12: the text of potassium must name the patient: {mrn}"),
        ('"potassium"\n    t', '"a b"\n    t', "salts.py:10: Potassium needs a name without spaces, commas and #"),
        ('name = "potassium"', 'name = ""', "salts.py:10: Potassium needs a name without spaces, commas and #"),
        ("def rule", "def rules", "salts.py:10: Potassium needs a function rule(self, chart)"),
        ("(Potassium(),)", "(Potassium,)", "salts:Salts: `types` lists Potassium, which is not a task type; create"),
        ("(Potassium(),)", "(Potassium(), Potassium())", "salts.py:11: Potassium uses the name 'potassium' too"),
        ("(Potassium(),)", "()", "salts:Salts: contains no task types; list them in `types`"),
    ],
)
def test_a_type_with_which_no_task_can_be_made_is_one_line(
    package: Callable[..., None], before: str, after: str, problem: str
) -> None:
    source = HEAD + BENCHMARK
    assert before in source
    package(source.replace(before, after))
    for words in (("data", "new", "set", "--like", "salts"), ("run", "salts", "--agent", "nop")):
        ran = medagent(*words)
        assert (ran.code, ran.err.count("\n"), problem in ran.err) == (1, 1, True), ran.err
    assert not Path("set").exists()


def test_a_benchmark_with_settings_of_its_own_is_graded(package: Callable[..., None]) -> None:
    settings = """

class SaltSettings(medagent.ClinicalSettings):
    half: Annotated[bool, medagent.Option("Which items", kind="value")] = False
    \\"\\"\\"Half of the items.\\"\\"\\"


class Salts(medagent.ClinicalBenchmark[SaltSettings]):
    name = "salts"
    Settings = SaltSettings
    types = (Potassium(),)

    def items(self, source):
        items = super().items(source)
        return items[: len(items) // 2] if source.half else items
""".replace('\\"', '"')
    package(HEAD + settings)
    assert medagent("run", "salts", "--agent", "reference", "--half", "--per-type", 4, "--quiet").code == 0
    graded = medagent("grade", "results/salts_r1_reference", "--no-grounds", "--json")
    assert graded.code == 0, graded.err
    assert json.loads(graded.out)["overall"]["counts"]["right"] == 2


def test_a_corrected_rule_grades_a_run_again(package: Callable[..., None]) -> None:
    source = HEAD + BENCHMARK
    words = ("run", "salts", "--agent", "reference", "--per-type", 4, "--quiet", "--json")
    package(source)
    before = json.loads(medagent(*words).out)["overall"]
    package(source.replace("[last.value])", "[last.value + 1])"))
    after = json.loads(medagent(*words).out)["overall"]
    assert (before["counts"]["right"], before["n"], after["n"]) == (4, 4, 4)
    assert after["counts"]["right"] < 4


def test_a_set_is_found_by_the_name_in_its_manifest(package: Callable[..., None]) -> None:
    source = HEAD + BENCHMARK
    package(source.replace('name = "salts"', 'name = "salts"\n    manifest_name = "salt-sets"'))
    made = medagent("data", "new", "set", "--like", "salts", "--seed", "one", "--patients", 20, "--per-type", 2)
    assert made.code == 0, made.err
    for words in (("check", "set"), ("verify", "set", "--seed", "one"), ("twins", "set", "--out", "twins")):
        ran = medagent("data", *words)
        assert ran.code == 0, ran.err
    Path("ward.py").write_text(HEAD, "utf-8")
    refused = medagent("data", "check", "set", "--from", "ward.py")
    line = "medagent: set: is a set of salt-sets, not of a file of task types; leave --from out\n"
    assert (refused.code, refused.err) == (1, line)
    package(source)
    missing = medagent("data", "check", "set")
    assert (missing.code, missing.err.count("\n")) == (1, 1)
    assert "set: is a set of the benchmark 'salt-sets', which is not installed; known: medagentbench, " in missing.err


def test_another_package_stops_and_replaces_nothing(package: Callable[..., None]) -> None:
    package(HEAD + BENCHMARK, **{"broken": "absent:Broken", "psb-300": "salts:Salts", "shift": "salts:Salts"})
    Path("salts.txt").touch()
    imported = medagent("data", "import", "salts.txt")
    assert imported.code == 1
    warning, problem = imported.err.splitlines()
    assert warning == "warning: the benchmark broken is left out: absent:Broken: no module absent; install its package"
    assert problem.startswith("medagent: salts.txt: contains no published data that medagent imports.")
    assert find("psb-300").name == "psb-300"
    assert of_kind("shift")[0].name == "medagentbench"
    unknown = medagent("data", "new", "set", "--like", "salt")
    assert unknown.code == 1
    assert "--like: 'salt' is unknown; known: bundled, full, shift, medagentbench, " in unknown.err
    assert unknown.err.endswith("Did you mean 'salts'?\n")


PACKAGE = '''
"""A benchmark whose name needs quotes in a shell."""

import medagent
from outsider.renal import Renal


class Spaced(medagent.ClinicalBenchmark[medagent.ClinicalSettings]):
    """As renal."""

    name = "ward 7"
    types = Renal.types
'''


@pytest.fixture
def spaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed benchmark with the name `ward 7`."""
    packages = tmp_path / "packages"
    (packages / "spaced-1.0.dist-info").mkdir(parents=True)
    (packages / "spaced.py").write_text(PACKAGE, "utf-8")
    (packages / "spaced-1.0.dist-info" / "METADATA").write_text("Name: spaced\nVersion: 1.0\n", "utf-8")
    points = packages / "spaced-1.0.dist-info" / "entry_points.txt"
    points.write_text("[medagent.benchmarks]\nward 7 = spaced:Spaced\n", "utf-8")
    monkeypatch.syspath_prepend(str(packages))


@pytest.mark.usefixtures("spaced")
def test_the_printed_commands_of_a_name_with_a_space_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = medagent("data", "new", "a set", "--like", "ward 7", "--seed", "one", "--patients", 20, "--per-type", 2)
    twins = medagent("data", "twins", "a set", "--out", "its twins")
    for ran, folder in ((made, "a set"), (twins, "its twins")):
        assert ran.code == 0, ran.err
        assert ran.out.splitlines()[-1] == f"Run it: medagent run 'ward 7' --dataset '{folder}' --agent reference"
        printed = shlex.split(ran.out.splitlines()[-1].removeprefix("Run it: medagent "))
        again = medagent(*printed, "--results-dir", f"runs of {folder}")
        assert again.code == 0, again.err
        other = medagent(*printed, "--results-dir", f"runs of {folder}", "--max-rounds", 3)
        assert "Continue it with its settings: medagent run 'ward 7' --agent reference " in other.err
