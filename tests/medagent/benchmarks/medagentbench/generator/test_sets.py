"""`medagent data new` and `verify`: what is in the folder, how it is balanced, and that it is the seed's alone."""

from __future__ import annotations

import hashlib
import json
import stat
from collections import Counter
from operator import attrgetter
from pathlib import Path

import pytest

from fhir_server.synthetic.bundled import DIGEST as BUNDLED_DIGEST
from fhir_server.synthetic.bundled import hospital
from medagent.agents.base import AgentContext
from medagent.benchmarks.generated_sets import stored_seed
from medagent.benchmarks.medagentbench.agents.reference import solver
from medagent.benchmarks.medagentbench.agents.stated import stated, stated_mrn
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.generator._phrases import contexts, instruction, wordings
from medagent.benchmarks.medagentbench.generator.write import MabGenerator
from medagent.benchmarks.medagentbench.tasks.dataset import constants_of, dataset_folder, load_dataset
from medagent.core.errors import UserError
from medagent.core.writing import file_digest
from medagent.engine.data_sets import SetOptions, read_manifest
from medagent.fhir_episodes.rule_agent import RuleAgent
from medagent.fhir_episodes.task import FhirTask
from refsol.clinical.recorded import RecordedSource
from refsol.medagentbench import PUBLISHED, NdjsonEhr, grade_item
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.generator.made import (
    blind_total,
    both,
    constants_right,
    items,
    nothing_right,
    small,
    too_frequent,
)

TYPES = [f"task{n}" for n in range(1, 11)]
DIGEST = "18539c1c56dccb7e66f591d48d386cf5e9c3d4c25456c5aa61893723daa94bbf"
"""SHA-256 over the digests that `dataset.json` names for the set of `small`, like shift, seed `one`."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled set, made again."""
    folder = tmp_path_factory.mktemp("whole") / "set"
    MabGenerator().make(folder, SetOptions(seed="synthetic"))
    return folder


def test_doing_nothing_scores_a_tenth_and_constants_a_fifth_at_most(whole: Path) -> None:
    v1, v2 = both(whole)
    assert {kind: n for kind, n in nothing_right(v2).items() if n} == {"task5": 7, "task9": 5, "task10": 15}
    assert {kind: n for kind, n in nothing_right(v1).items() if n} == {"task5": 2, "task9": 1, "task10": 5}
    assert constants_right(v2) <= 60
    assert constants_right(v1) <= 20


def test_an_agent_that_reads_nothing_is_right_in_about_a_fifth(whole: Path, shift: Path) -> None:
    for dataset in both(whole):
        assert too_frequent(dataset) == {}
        right, count = blind_total(dataset)
        assert right <= 0.22 * count
    assert blind_total(both(shift)[1])[0] <= 0.3 * blind_total(both(shift)[1])[1]  # six tasks of each type


def test_minus_one_is_right_in_a_sixth(whole: Path) -> None:
    for dataset in both(whole):
        assert dataset.reads is not None
        facts = RecordedSource.of_file(dataset.reads)
        for kind in ("task4", "task6"):
            accepted = [
                grade_item(item, None, [], facts).accepted
                for item in items(dataset)
                if item["id"].startswith(kind + "_")
            ]
            assert sum(answers == ([-1],) for answers in accepted) == len(accepted) // 6


def test_v1_is_the_first_third_of_each_type(whole: Path) -> None:
    v1, v2 = both(whole)
    assert [task.id for task in v1.tasks] == [f"{kind}_{n}" for kind in TYPES for n in range(1, 11)]
    assert [task.model_dump() for task in v1.tasks] == [
        task.model_dump() for task in v2.tasks if int(task.id.partition("_")[2]) <= 10
    ]
    assert len({task.text for task in v2.tasks}) == 300
    for kind in TYPES[1:]:
        patients = [task.patient for task in v2.tasks if task.type == kind]
        assert len(set(patients)) == len(patients)


def test_the_recorded_searches_say_what_the_hospital_says(shift: Path) -> None:
    for dataset in both(shift):
        assert dataset.reads is not None
        assert dataset.hospital is not None
        sources = RecordedSource.of_file(dataset.reads), NdjsonEhr(dataset.hospital)
        for item in items(dataset):
            first, second = (grade_item(item, None, [], source, constants=constants_of(dataset)) for source in sources)
            assert (first.accepted, first.because) == (second.accepted, second.because), item["id"]


def test_the_bundled_set_is_what_its_seed_gives(whole: Path) -> None:
    committed = dataset_folder("synthetic")
    assert stored_seed(committed) == "synthetic"
    for file in committed.iterdir():
        if file.name not in ("seed.txt", "dataset.json"):
            assert file.read_bytes() == (whole / file.name).read_bytes(), file.name
    assert file_digest(whole / "hospital.ndjson") == BUNDLED_DIGEST
    with (whole / "hospital.ndjson").open(encoding="utf-8") as lines:
        assert all(line == made + "\n" for line, made in zip(lines, hospital(), strict=True))


def patients(folder: Path) -> str:
    """The digest of the patients of a set."""
    return MedAgentBench().set_patients(load_dataset(str(folder), "v1"), lambda _: None).digest


def test_a_hospital_that_is_not_there_is_made_again_from_the_stored_seed(shift: Path, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for file in shift.iterdir():
        if file.name != "hospital.ndjson":
            (folder / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match=r"hospital\.ndjson: cannot be read"):
        patients(folder)
    (folder / "seed.txt").write_text("two\n", encoding="ascii")
    with pytest.raises(UserError, match="makes other patients from its seed"):
        patients(folder)
    (folder / "seed.txt").write_text("one\n", encoding="ascii")
    assert patients(folder) == patients(shift)


def test_edges_are_among_the_tasks(whole: Path) -> None:
    hospital, tasks = NdjsonEhr(whole / "hospital.ndjson"), both(whole)[1].tasks
    found = {
        code: [hospital.search("Observation", patient=task.patient, code=code) for task in tasks if task.patient]
        for code in ("MG", "K", "A1C")
    }
    last = {
        code: [max(readings, key=lambda reading: reading["effectiveDateTime"]) for readings in series if readings]
        for code, series in found.items()
    }
    times = {code: {reading["effectiveDateTime"] for reading in readings} for code, readings in last.items()}
    assert {"2023-11-12T10:15:00+00:00", "2023-11-12T10:14:00+00:00"} <= times["MG"]
    assert {"2022-11-13T10:15:00+00:00", "2022-11-13T10:14:00+00:00"} <= times["A1C"]
    assert {1, 1.5, 1.9, 2} <= {reading["valueQuantity"]["value"] for reading in last["MG"]}
    assert {3.4, 3.5} <= {reading["valueQuantity"]["value"] for reading in last["K"]}
    assert any(
        len({reading["effectiveDateTime"] for reading in readings}) < len(readings)
        for series in found.values()
        for readings in series
    )
    lines = (whole / "hospital.ndjson").read_text(encoding="utf-8")
    assert '"status":"amended"' in lines
    assert '"text":"MGRBC"' in lines


def test_a_set_says_what_it_is(shift: Path) -> None:
    manifest = read_manifest(shift)
    generation = manifest.generated
    assert (manifest.format, manifest.benchmark) == (1, "medagentbench")
    assert generation is not None
    assert generation.seed_sha256 == hashlib.sha256(b"one").hexdigest()
    assert (generation.private, generation.patients, generation.per_type) == (False, 30, 6)
    assert (generation.like, generation.resources["Patient"]) == ("shift", 30)
    for name, digest in manifest.files.items():
        assert hashlib.sha256((shift / name).read_bytes()).hexdigest() == digest
    for line in (shift / "tasks.jsonl").read_text(encoding="utf-8").splitlines():
        task = json.loads(line)
        assert task["canary"] == manifest.canary
        assert manifest.canary not in task["text"] + task["context"]


def test_the_bytes_are_the_committed_ones(shift: Path) -> None:
    files = read_manifest(shift).files
    assert hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest() == DIGEST


def test_a_private_set_keeps_its_seed_in_one_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    sizes = ("--patients", 30, "--per-type", 6)
    ran = medagent("data", "new", tmp_path / "a", "--split", "test", *sizes)
    assert ran.code == 0
    seed_file = tmp_path / "a" / "seed.txt"
    seed = seed_file.read_text().strip()
    assert stat.S_IMODE(seed_file.stat().st_mode) == 0o600
    assert len(bytes.fromhex(seed)) == 16
    assert seed not in ran.out + ran.err
    others = [path for path in (tmp_path / "a").iterdir() if path != seed_file]
    assert not [path for path in others if seed.encode() in path.read_bytes()]
    assert read_manifest(tmp_path / "a").generated.private  # type: ignore[union-attr]  # it was generated
    assert medagent("data", "verify", tmp_path / "a").out == f"{tmp_path / 'a'}: every byte follows from the seed\n"


def test_verify_names_what_differs(tmp_path: Path) -> None:
    folder = small(tmp_path / "set", like="bundled")
    tasks = folder / "tasks.jsonl"
    tasks.write_bytes(tasks.read_bytes().replace(b"task5_1", b"task5_9", 1))
    (folder / "reads.jsonl").unlink()
    ran = medagent("data", "verify", folder, "--seed", "one")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"{folder}: reads.jsonl: is missing",
        f"{folder}: tasks.jsonl: its bytes differ",
    ]
    ran = medagent("data", "verify", folder, "--seed", "two")
    assert (ran.code, "its SHA-256 is not the one" in ran.out) == (1, True)
    ran = medagent("data", "verify", folder)
    assert (ran.code, ran.err) == (
        1,
        f"medagent: {folder / 'seed.txt'}: the seed cannot be read; pass it with --seed\n",
    )
    ran = medagent("run", "--dataset", folder, "--agent", "nop", "--results-dir", tmp_path)
    assert (ran.code, "is not the file that dataset.json next to it lists" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--patients", "5"), "--patients: 5 is too low; at least 20"),
        (("--per-type", "2"), "--per-type: 2 is too low; at least 3"),
        (("--patients", "20", "--per-type", "30"), "raise --patients or lower --per-type"),
        (("--seed", " "), "--seed is empty"),
        (("--split", "test", "--seed", "x"), "leave --seed out"),
        (("--split", "ood", "--like", "full"), "--split ood needs --like shift, not --like full"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = medagent("data", "new", tmp_path / "set", *words)
    assert (ran.code, said in ran.err, ran.err.count("\n")) == (1, True, 1)
    assert not list(tmp_path.glob("set/*"))


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    assert "is not empty" in medagent("data", "new", tmp_path).err
    assert (tmp_path / "note").read_text() == "mine"


def test_the_answer_is_independent_of_the_wording(shift: Path) -> None:
    """Every wording of every type leads the reference agent's reading to the same patient, and the rules read none."""
    constants = constants_of(both(shift)[1])
    words = {"mrn": constants.mrn_form.replace("#", "7").replace("@", "Q")}
    words |= {"given": "Åsa", "family": "de la Cruz", "birth": "4 March 1961"}
    for kind in TYPES:
        everything = {text for split in ("test", "ood") for text in wordings(kind, split)}
        assert len(everything) == 18
        first = set()
        for number, template in enumerate(sorted(everything)):
            said = instruction(template, constants, number, words)
            agent = RuleAgent(AgentContext(base="http://x"), solver("http://x"))
            first.add(next(agent.solver(FhirTask(f"{kind}_1", kind, said, contexts(constants)[kind]))))
        assert len(first) == 1, kind


def test_wordings_of_test_and_ood_are_in_no_other_split() -> None:
    for kind in TYPES:
        common, test, ood = (set(wordings(kind, split)) for split in ("train", "test", "ood"))
        assert set(wordings(kind, None)) == set(wordings(kind, "dev")) == common < test
        assert (len(common), len(test - common), len(ood)) == (12, 3, 3)
        assert not ood & test


def test_a_shift_set_says_all_its_rules_in_the_context(shift: Path) -> None:
    constants = constants_of(both(shift)[1])
    said = contexts(constants)
    for kind, told in {
        "task3": [constants.blood_pressure_code],
        "task4": [constants.magnesium.code, constants.magnesium.unit, f"{constants.look_back_hours} hours"],
        "task5": [
            constants.magnesium_drug,
            *(f"{level}" for level, _ in constants.magnesium_doses),
            *(
                f"{grams} g IV over {grams * constants.magnesium_hours_per_gram}"
                for _, grams in constants.magnesium_doses
            ),
        ],
        "task6": [constants.glucose.code, constants.glucose.unit, f"{constants.look_back_hours} hours"],
        "task7": [constants.glucose.code],
        "task8": [constants.referral_code],
        "task9": [
            *(constants.potassium.code, f"below {constants.potassium_low}", constants.potassium_drug),
            *(f"{constants.potassium_dose} mEq", constants.potassium_test),
        ],
        "task10": [constants.a1c.code, constants.a1c_test],
    }.items():
        assert [text for text in told if text not in said[kind]] == [], kind
        assert constants.now_text in said[kind]
    assert constants.now != PUBLISHED.now
    same = [
        name
        for name in ("mrn_form", "magnesium", "magnesium_doses", "potassium_low", "follow_up_hour", "a1c_test")
        if getattr(constants, name) == getattr(PUBLISHED, name)
    ]
    assert not same


@pytest.mark.parametrize("seed", ["one", "two", "three"])
def test_whoever_reads_a_task_knows_every_number_that_grades_it(seed: str, shift: Path, tmp_path: Path) -> None:
    """Words alone, from the instruction and the context of a task, give the constants that its rules take."""
    folder = shift if seed == "one" else small(tmp_path / "set", seed=seed)
    constants = constants_of(both(folder)[1])
    clock, magnesium = ["now"], ["magnesium.code", "look_back_hours"]
    used = {
        "task2": clock,
        "task3": [*clock, "blood_pressure_code"],
        "task4": [*clock, *magnesium],
        "task5": [*clock, *magnesium, "magnesium_doses", "magnesium_hours_per_gram", "magnesium_drug"],
        "task6": [*clock, "glucose.code", "look_back_hours"],
        "task7": ["glucose.code"],
        "task8": [*clock, "referral_code"],
        "task9": [
            *(*clock, "potassium.code", "potassium_low", "potassium_dose", "potassium_drug", "potassium_test"),
            "follow_up_hour",
        ],
        "task10": [*clock, "a1c.code", "a1c_months", "a1c_test"],
    }
    for task in both(folder)[1].tasks:
        read = stated(FhirTask(task.id, task.type, task.text, task.context))
        for name in used.get(task.type, ()):
            assert attrgetter(name)(read) == attrgetter(name)(constants), (task.id, name)
        if task.type != "task1":
            assert stated_mrn(task.text) == task.patient
        for words in {"task3": [constants.blood_pressure], "task8": [constants.referral]}.get(task.type, ()):
            assert words in task.text


def test_two_seeds_share_no_patient_and_no_instruction(shift: Path, whole: Path, tmp_path: Path) -> None:
    sets = [both(path)[1] for path in (shift, whole, small(tmp_path / "other", "bundled"))]
    mrns: Counter[str] = Counter()
    said: Counter[str] = Counter()
    for dataset in sets:
        mrns.update({str(task.patient) for task in dataset.tasks if task.patient})
        said.update({task.text for task in dataset.tasks})
    assert (max(mrns.values()), max(said.values())) == (1, 1)


def test_training_tasks_are_patient_by_wording(tmp_path: Path) -> None:
    MabGenerator().make(tmp_path / "set", SetOptions(split="train", seed="one", patients=30, per_type=60))
    tasks = both(tmp_path / "set")[1].tasks
    assert len({task.text for task in tasks}) == len(tasks) == 600
    assert max(Counter((task.type, task.patient) for task in tasks if task.type != "task1").values()) > 1


def test_an_ood_set_has_other_rules_in_other_words(tmp_path: Path) -> None:
    sizes = ("--patients", 30, "--per-type", 6)
    assert medagent("data", "new", tmp_path / "set", "--split", "ood", "--seed", "one", *sizes).code == 0
    dataset = both(tmp_path / "set")[1]
    assert constants_of(dataset) != PUBLISHED
    assert dataset.manifest.generated is not None
    assert (dataset.manifest.name[:4], dataset.manifest.generated.split) == ("ood-", "ood")
    ages = [task for task in dataset.tasks if task.type == "task2"]
    said = {task.text.replace(str(task.patient), "{mrn}") for task in ages}
    assert said <= set(wordings("task2", "ood"))
