"""Writes a data set's folder from a seed, and regenerates one to check every byte.

The same seed and options give the same bytes. The random numbers are seeded with the SHA-256 of the kind, the split and
the seed, so a train set and a test set never share random numbers, whatever their seeds.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fhir_server.synthetic import lines
from fhir_server.synthetic.dice import Dice
from medagent.benchmarks import made_folders
from medagent.benchmarks.injected import injected
from medagent.benchmarks.made_folders import (
    HOSPITAL,
    MANIFEST,
    canary,
    counted,
    differing_files,
    file_digests,
    kept_seed,
    make_folder,
    seed_digest,
    write_manifest,
    written,
)
from medagent.benchmarks.medagentbench.generator._deal import Dealer, hospital_of
from medagent.benchmarks.medagentbench.generator._profile import profile, shifted
from medagent.benchmarks.medagentbench.tasks.manifest import (
    Like,
    Manifest,
    Split,
    read_manifest,
)
from medagent.core.errors import UserError
from medagent.core.paths import cache_dir
from medagent.core.writing import file_digest, replacing
from refsol.clinical.task_type import task_type
from refsol.medagentbench import build_key, write_key
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.twins import case_of

GENERATOR = 4
PATIENTS, PER_TYPE = 100, 30
LEAST_PATIENTS = 20


@dataclass(frozen=True, slots=True)
class SetOptions:
    """The options of a data set. Without a seed, a secret one is chosen. `injected` is the share of the items with an
    instruction in the chart.
    """

    like: Like = "bundled"
    split: Split | None = None
    seed: str | None = None
    patients: int = PATIENTS
    per_type: int = PER_TYPE
    injected: float = 0.0

    def __post_init__(self) -> None:
        if self.split == "ood" and self.like != "shift":
            raise UserError(f"--split ood needs --like shift, not --like {self.like}: it is a shift set in other words")
        if self.split == "test" and self.seed is not None:
            raise UserError("--split test always uses a secret seed: leave --seed out")
        if self.seed is not None and not self.seed.strip():
            raise UserError("--seed is empty; leave it out for a secret one")
        if self.patients < LEAST_PATIENTS:
            raise UserError(
                f"--patients: {self.patients} is too low; at least {LEAST_PATIENTS} are needed to have patients in "
                "every branch"
            )
        if self.per_type < 3:
            raise UserError(
                f"--per-type: {self.per_type} is too low; at least 3 are needed, because v1 gets a third of the tasks"
            )


def make(folder: Path, options: SetOptions) -> Manifest:
    """Make a data set in a new or empty folder. Raises UserError, and then removes the files that it wrote."""
    return make_folder(folder, options.seed, lambda seed: _write(folder, options, seed))


def hospital_again(folder: Path, manifest: Manifest) -> Path:
    """Regenerate the patients of a folder that contains its seed but not its patients. They are put into the cache
    folder.

    Raises UserError if this generator makes other patients.
    """
    digest = manifest.files[HOSPITAL]
    target = cache_dir() / f"{manifest.name}-{digest[:16]}.ndjson"
    if target.is_file() and file_digest(target) == digest:
        return target
    number = seed_number(kept_seed(folder), manifest.like, manifest.split)
    hospital = profile(manifest.constants, manifest.like, seed=number, patients=manifest.patients)
    with replacing(target) as part:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(line + "\n" for line in lines(hospital))
        if file_digest(part) != digest:
            raise UserError(
                f"{folder}: generator {GENERATOR} makes other patients from its seed than {MANIFEST} names; copy the "
                f"folder with its {HOSPITAL}"
            )
    return target


def differing(folder: Path, seed: str) -> list[str]:
    """How the files of a folder differ from what the seed gives, one text per file.

    The set is regenerated and compared byte by byte. Raises UserError for a folder of another generator.
    """
    manifest = read_manifest(folder)
    if manifest.generator != GENERATOR:
        raise UserError(
            f"{folder}: was made by generator {manifest.generator}; this version of medagent contains generator "
            f"{GENERATOR} and cannot check it"
        )
    if seed_digest(seed) != manifest.seed_sha256:
        return [f"the seed: its SHA-256 is not the one in {MANIFEST}"]
    split = None if manifest.split == "test" else manifest.split  # the seed of a retired test set may be public
    options = SetOptions(manifest.like, split, seed, manifest.patients, manifest.per_type, manifest.injected)
    with TemporaryDirectory() as aside:
        again = Path(aside)
        made = _write(again, options, seed, split=manifest.split, private=manifest.private)
        return differing_files(folder, again, made.files)


def constants_of(like: Like, seed_number: int) -> Constants:
    """The constants of a set: sampled for a shift set, otherwise the published ones."""
    return shifted(Dice(seed_number + 1)) if like == "shift" else PUBLISHED


def seed_number(text: str, like: Like, split: Split | None) -> int:
    """The number that seeds the random generator of a set."""
    return made_folders.seed_number(text, f"{GENERATOR} {like} {split or 'any'}")


def _write(
    folder: Path, options: SetOptions, seed: str, *, split: Split | None = None, private: bool | None = None
) -> Manifest:
    split = split or options.split
    number = seed_number(seed, options.like, split)
    constants = constants_of(options.like, number)
    hospital = profile(constants, options.like, seed=number, patients=options.patients)
    counts = Counter[str]()
    read = hospital_of(counted(written(lines(hospital), folder), counts), constants)
    digest = seed_digest(seed)
    tasks = list(Dealer(Dice(number + 2), constants, read, split).tasks(options.per_type))
    chart_tasks = _with_instructions(tasks, folder, options.injected, number, constants)
    names = [HOSPITAL]
    for version, last in (("v1", options.per_type // 3), ("v2", options.per_type)):
        chosen = [item for item in tasks if int(item["id"].partition("_")[2]) <= last]
        names += [f"test_data_{version}.json", f"key_{version}.json"]
        (folder / names[-2]).write_text(
            _render([chart_tasks[one["id"]] for one in chosen], canary(seed)), encoding="utf-8", newline="\n"
        )
        write_key(folder / names[-1], build_key(chosen, read.resources, constants))
    manifest = Manifest(
        name=f"{split or options.like}-{digest[:12]}",
        generator=GENERATOR,
        like=options.like,
        split=split,
        seed_sha256=digest,
        private=options.seed is None if private is None else private,
        patients=options.patients,
        per_type=options.per_type,
        resources=dict(sorted(counts.items())),
        canary=canary(seed),
        constants=constants,
        files=file_digests(folder, names),
        injected=options.injected,
    )
    write_manifest(folder, manifest)
    return manifest


def _with_instructions(
    tasks: list[dict[str, Any]], folder: Path, share: float, number: int, constants: Constants
) -> dict[str, dict[str, Any]]:
    """The tasks by id. A share of them gets an instruction in the chart."""
    if not share:
        return {task["id"]: task for task in tasks}
    instructions = injected(tasks, task_type, lambda task: case_of(task, constants), folder, share, number + 3)
    return {
        task["id"]: {**task, "injected": asdict(one)} if one else task
        for task, one in zip(tasks, instructions, strict=True)
    }


def _render(tasks: list[dict[str, Any]], mark: str) -> str:
    """The text of a task file. Every task contains the canary, which is not part of the prompt."""
    return json.dumps([{**task, "canary": mark} for task in tasks], ensure_ascii=False, indent=1) + "\n"
