"""`medagent data`: the task sets on this machine, published data, sets from a seed, and answer keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from medagent.benchmarks.ward.settings import HospitalSettings
from medagent.core.writing import writing
from medagent.terminal.groups import group
from medagent.terminal.settings import fields_of, with_options

app = group(
    "Data of the benchmarks: task sets, published files, new sets from a seed, answer keys. Without a subcommand: list "
    "the task sets.\n\n"
    "Example: medagent data new fresh && medagent run --dataset fresh --agent reference",
    no_args_is_help=False,
)

_OF_PATIENTS = "patients ehr fhir patient_ids group now id_system concurrency fhir_header ca_file"


@app.callback(invoke_without_command=True)
def list_data(context: typer.Context) -> None:
    """Without a subcommand: list the task sets, and whether the bundled hospital is built.

    Example: medagent data
    """
    if context.invoked_subcommand is not None:
        return
    from medagent.benchmarks.medagentbench.data import built_hospital, present_datasets
    from medagent.benchmarks.psb300.tasks import present_sets
    from medagent.reports.tables import Cell, Table, print_table

    sets, newer = present_datasets(), present_sets()
    rows: list[list[Cell]] = [[one.name, one.version, len(one.tasks), one.digest[:16]] for one in sets]
    rows += [[one.ref.name, "", len(one.tasks), one.digest[:16]] for one in newer]
    print_table(Table(["name", "version", "tasks", "digest"], rows, "Task sets"))
    for folder in dict.fromkeys(one.path.parent for one in sets):
        print(f"{folder.name}: {folder}")
    for one in newer:
        print(f"{one.ref.name}: {one.folder}")
    print(f"hospital: {built_hospital() or 'not built yet; the first run or `medagent ehr build` builds it'}")


@app.command("import")
def import_(
    source: Annotated[
        Path, typer.Argument(metavar="PATH", help="A published file, or a checkout of a benchmark's repository.")
    ],
) -> None:
    """Import published data, which medagent does not ship: a file, or everything in a checkout.

    The content decides which benchmark the data belongs to.

    Example: medagent data import ~/src/MedAgentBench

    Example: medagent data import questions.csv
    """
    from medagent.benchmarks.base import find, names
    from medagent.benchmarks.medagentbench.tasks.official import import_official
    from medagent.core.errors import UserError
    from medagent.reports.tables import say

    if not source.exists():
        raise UserError(f"{source}: no such file or folder")
    done = [line for name in names() if (line := find(name).import_data(source)) is not None]
    for line in "\n".join(done).splitlines():
        (say if line.startswith("warning: ") else print)(line)
    if source.is_file() and not done:
        raise UserError(
            f"{source}: not a published file of {', '.join(names())}. Pass a question file or the judge cases of "
            "FHIR-AgentBench, the task file of psb-300, or the folder of a checkout"
        )
    if not done:
        import_official(source)  # fails with the name of the first missing file


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A task file of your own (JSON).")],
) -> None:
    """Check your own task file: list its problems, or its tasks. Exit code 1 if it cannot be used.

    Example: medagent data check my_tasks.json
    """
    from collections import Counter

    from medagent.benchmarks.medagentbench.tasks.dataset import load_tasks_file, task_warnings
    from medagent.core.figures import counted

    dataset = load_tasks_file(file)
    for warning in task_warnings(dataset):
        print(f"warning: {file}: {warning}")
    types = ", ".join(f"{count} {name}" for name, count in Counter(task.type for task in dataset.tasks).items())
    print(f"{file}: {counted(len(dataset.tasks), 'tasks')} ({types}), digest {dataset.digest[:16]}")
    if dataset.has_twins:
        print(f"twins: {counted(len(dataset.tasks) // 2, 'pairs')}")
    print(_rules(dataset.constants))


def _rules(constants: Any) -> str:
    """The published clock, codes and thresholds by which the ten types grade a task file."""
    labs = (constants.magnesium, constants.potassium, constants.glucose, constants.a1c)
    codes = ", ".join([*(lab.code for lab in labs), constants.blood_pressure_code])
    return (
        f"graded with the published rules: it is {constants.now.isoformat()}; the codes are {codes}; magnesium is low "
        f"up to {constants.magnesium_doses[-1][0]} {constants.magnesium.unit}, potassium below "
        f"{constants.potassium_low} {constants.potassium.unit}; a result is recent for {constants.look_back_hours} "
        f"hours, an HbA1c for {constants.a1c_months} months. If your patients need other rules, write your own "
        "task types (docs/clinical.md)"
    )


@app.command("schema")
def schema() -> None:
    """Print the JSON schema of a task file.

    Example: medagent data schema > tasks.schema.json
    """
    import json

    from medagent.benchmarks.medagentbench.tasks.dataset import task_schema

    print(json.dumps(task_schema(), indent=1))


@app.command("key")
def key(
    out: Annotated[Path, typer.Argument(help="Where to write the key.")],
    tasks: Annotated[Path | None, typer.Option(help="A task file; by default the data set's.")] = None,
    dataset: Annotated[str, typer.Option(help="synthetic, official, or a folder.")] = "synthetic",
    version: Annotated[str, typer.Option(help="v1 or v2 of the data set.")] = "v2",
    fhir: Annotated[str | None, typer.Option(help="Facts from a FHIR server's base URL.")] = None,
    ehr: Annotated[Path | None, typer.Option(help="Facts from an NDJSON file of FHIR resources.")] = None,
) -> None:
    """Build the answer key of a task set: the facts that grading needs, so that anyone can grade offline.

    Example: medagent data key key.json --dataset official --fhir http://localhost:8080/fhir/
    """
    from medagent.benchmarks.medagentbench.data import dataset_of, open_facts, task_dicts
    from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading
    from medagent.core.errors import UserError
    from refsol.medagentbench import build_key, write_key

    if fhir is None and ehr is None:
        raise UserError("pass the source of the facts: --fhir URL or --ehr FILE.ndjson")
    source = MedAgentBenchGrading(dataset=str(tasks or dataset), version=version, fhir=fhir, ehr=ehr)
    task_set = dataset_of(source)
    if task_set.has_twins:
        raise UserError(f"{task_set.path}: twins cannot share an answer key, because each comes with its own chart")
    answers = build_key(task_dicts(task_set), open_facts(source, task_set).facts, task_set.constants)
    write_key(out, answers)
    patients, series = len(answers.patients), len(answers.readings)
    print(f"{out}: {patients} patients and {series} series for {len(task_set.tasks)} tasks")


@app.command("new")
@with_options(fields_of(HospitalSettings, *_OF_PATIENTS.split()))
def new(
    values: dict[str, Any],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    seed: Annotated[
        str | None, typer.Option(help="Any text; by default 128 secret random bits, stored in DIR/seed.txt.")
    ] = None,
    like: Annotated[
        Literal["bundled", "full", "shift", "psb-300", "fhir-agentbench"] | None,
        typer.Option(
            help="The kind of set: bundled (default), full (size of the original), shift (other thresholds, "
            "codes, units and clock), psb-300, or fhir-agentbench."
        ),
    ] = None,
    split: Annotated[
        Literal["train", "dev", "test", "ood"] | None,
        typer.Option(
            help="For training and its tests: splits never share a seed. ood is a shift set with other wording."
        ),
    ] = None,
    per_type: Annotated[int, typer.Option(help="Tasks of each type; v1 gets a third of them.")] = 30,
    types: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE.py", help="Your own file of task types, or one of them: FILE.py:Name."),
    ] = None,
    injected: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="The share of the items with an instruction for agents in the chart: 20%."),
    ] = None,
) -> None:
    """Make a new hospital with tasks (v1 and v2, with answer keys) from a seed.

    The same seed gives the same bytes on every machine. With --from FILE.py --fhir URL, the tasks are about patients of
    a hospital's own server. Run the command again to continue after an interruption.

    Example: medagent data new fresh --from ward7.py --per-type 20

    Example: medagent data new ward --from ward7.py --fhir http://localhost:8085/fhir --patients 500

    Example: medagent data new fresh --like shift

    Example: medagent data new fresh --like psb-300

    Example: medagent data new fresh --like fhir-agentbench

    Example: medagent data new injected --injected 20%
    """
    from medagent.benchmarks.injected import share_of
    from medagent.benchmarks.made_folders import Order
    from medagent.core.options import checked, refuse_idle

    server = checked(HospitalSettings, values)
    refuse_idle(server)
    _refuse(types, like, split, values, injected)
    share = 0.0 if injected is None else share_of(injected)
    if types is None:
        benchmark, name, made = _generated(folder, like, split, seed, server.patients, per_type, share)
        _describe(folder, benchmark, name, made, 10 * made.per_type)
    else:
        _of_types(types, folder, Order(seed, server.patients, per_type, share), server)


def _refuse(types: str | None, like: Any, split: Any, values: dict[str, Any], injected: str | None) -> None:
    """Raises UserError for options that do not go together."""
    from medagent.core.errors import UserError

    if types is None and (one := next((name for name in ("fhir", "ehr") if name in values), None)):
        raise UserError(f"--{one} needs --from FILE.py")
    if types is not None and (like is not None or split is not None):
        raise UserError("--from FILE.py makes tasks of your own types: leave --like and --split out")
    if injected is not None and like == "fhir-agentbench":
        raise UserError("--injected needs tasks with rules over a chart, which fhir-agentbench does not have")
    if injected is not None and "fhir" in values:
        raise UserError("--injected changes charts, so it needs patients in a file: --ehr FILE instead of --fhir URL")


def _of_types(types: str, folder: Path, order: Any, server: HospitalSettings) -> None:
    """Make a set of own task types: over a new hospital, a file's patients, or a hospital's own server."""
    from medagent.benchmarks.ward.benchmark import types_named
    from medagent.benchmarks.ward.hospital import FromServer
    from medagent.benchmarks.ward.made import make
    from medagent.cli._ehr import Counter
    from medagent.fhir_episodes.benchmark import token_warnings
    from medagent.reports.tables import say

    own = types_named(types)
    if server.fhir is None:
        made = make(own, folder, order, server.ehr)
        print("\n".join(made.branches))
        _describe(folder, f"{types} ", made.manifest.name, made.manifest.made, len(made.tasks))
        return
    for warning in token_warnings():
        say(f"warning: {warning}")
    private = server.model_copy(update={"writes": "private"})
    made = FromServer(own, folder, order, private, say, Counter("patients")).make()
    print("\n".join(made.branches))
    manifest = made.manifest
    print(
        f"{folder}: {manifest.name}: {len(made.tasks)} tasks from {manifest.made.patients} patients, at {manifest.now}"
    )
    print("The folder contains patients' data, which only you can read (mode 0600). Keep it on this machine.")
    print(f"Run it: medagent run {types} --dataset {folder} --fhir {server.fhir} --writes private --agent reference")


def _describe(folder: Path, benchmark: str, name: str, made: Any, tasks: int) -> None:
    """Print what was made, and how to run it. `benchmark` is the benchmark's part of the command."""
    resources = sum(made.resources.values())
    print(f"{folder}: {benchmark}{name}: {made.patients} patients, {resources} resources, {tasks} tasks")
    print(f"SHA-256 of the seed: {made.seed_sha256}")
    if made.private:
        print(
            f"The seed in {folder / 'seed.txt'} is secret: publish its SHA-256 now, the seed when the set is retired."
        )
    else:
        print("Not private: anyone who guesses the seed can make the same set. Omit --seed for a secret seed.")
    print(f"Run it: medagent run {benchmark}--dataset {folder} --agent reference")


def _generated(
    folder: Path,
    like: Any,
    split: Literal["train", "dev", "test", "ood"] | None,
    seed: str | None,
    patients: int,
    per_type: int,
    injected: float,
) -> tuple[str, str, Any]:
    """Make a set of a bundled benchmark: the benchmark's part of the command, the set's name, how it was made."""
    if like not in ("psb-300", "fhir-agentbench"):
        from medagent.benchmarks.medagentbench.generator.write import SetOptions, make

        kind: Any = like or ("shift" if split == "ood" else "bundled")
        made = make(folder, SetOptions(kind, split, seed, patients, per_type, injected))
        return "", made.name, made
    from medagent.benchmarks.fhiragentbench.generator.write import GENERATOR as FHIR_AGENTBENCH
    from medagent.benchmarks.made_folders import Order
    from medagent.benchmarks.psb300.generator.write import GENERATOR as PSB300
    from medagent.core.errors import UserError

    if split is not None:
        part = ". To run a part of it: medagent run psb-300 --split" if like == "psb-300" else ""
        raise UserError(f"--split is not available with --like {like}{part}")
    generator: Any = PSB300 if like == "psb-300" else FHIR_AGENTBENCH
    ordered = generator.make(folder, Order(seed, patients, per_type, injected))
    return f"{like} ", ordered.name, ordered.made


@app.command("twins")
def twins(
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="[DATASET]",
            help="synthetic, official, psb-300, published (psb-300's published set), fhir-agentbench, a folder, a task "
            "file, or a question file (.csv).",
        ),
    ] = "synthetic",
    out: Annotated[Path, typer.Option(metavar="NAME", help="A new or empty folder.")] = Path("twins"),
    types: Annotated[
        str | None, typer.Option("--from", metavar="FILE.py", help="The file of task types, for a set made from one.")
    ] = None,
    ehr: Annotated[
        Path | None, typer.Option(help="Other patients: NDJSON, or a file from medagent ehr import.")
    ] = None,
) -> None:
    """Make a set in which each item occurs twice, over two charts. No reply is right on both, so guessing is worthless.

    Both have the same patient, text and clock; one deciding fact of the chart differs. An item counts as right if the
    replies to both are right and the agent read the deciding data. For questions of FHIR-AgentBench, one of the two
    charts does not contain the answer.

    Example: medagent data twins && medagent run --dataset twins --agent reference

    Example: medagent data twins psb-300 --out psb-twins

    Example: medagent data twins fhir-agentbench --out question-twins

    Example: medagent data twins ward-set --from ward7.py --out ward-twins
    """
    from medagent.benchmarks.fhiragentbench import sets as question_sets
    from medagent.benchmarks.made_folders import make_folder
    from medagent.benchmarks.psb300 import tasks as task_sets
    from medagent.core.figures import counted

    command, write = "", _twins_of_medagentbench(dataset, ehr)
    if types is not None:
        command, write = f"{types} ", _twins_of_types(types, dataset, ehr)
    elif dataset in ("psb-300", task_sets.IMPORTED) or task_sets.is_set(Path(dataset)):
        command, write = "psb-300 ", _twins_of_psb300(dataset, ehr)
    elif dataset == "fhir-agentbench" or dataset.endswith(".csv") or question_sets.is_set(Path(dataset)):
        command, write = "fhir-agentbench ", _twins_of_questions(dataset, ehr)
    made = make_folder(out, "", lambda _: write(out))
    print("\n".join(made.words))
    print(f"{out}: {counted(sum(made.pairs.values()), 'pairs')}, {counted(len(made.halves), 'items')}")
    agent = "nop" if dataset.endswith(".csv") else "reference"  # which reads only generated questions
    print(f"Run it: medagent run {command}--dataset {out} --agent {agent}")


def _twins_of_medagentbench(dataset: str, ehr: Path | None) -> Callable[[Path], Any]:
    from medagent.benchmarks.medagentbench.generator.twins import write
    from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings

    return lambda folder: write(MedAgentBenchSettings(dataset=dataset, ehr=ehr), folder)


def _twins_of_psb300(dataset: str, ehr: Path | None) -> Callable[[Path], Any]:
    from medagent.benchmarks.psb300.settings import Psb300Settings
    from medagent.benchmarks.psb300.tasks import BUNDLED
    from medagent.benchmarks.psb300.twins import write

    name = BUNDLED if dataset == "psb-300" else dataset
    return lambda folder: write(Psb300Settings(dataset=name, ehr=ehr), folder)


def _twins_of_questions(dataset: str, ehr: Path | None) -> Callable[[Path], Any]:
    from medagent.benchmarks.fhiragentbench.generator.twins import write
    from medagent.benchmarks.fhiragentbench.sets import SYNTHETIC
    from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings

    name = SYNTHETIC if dataset == "fhir-agentbench" else dataset
    return lambda folder: write(FhirAgentBenchSettings(dataset=name, ehr=ehr), folder)


def _twins_of_types(types: str, dataset: str, ehr: Path | None) -> Callable[[Path], Any]:
    from medagent.benchmarks.ward.benchmark import types_named
    from medagent.benchmarks.ward.settings import WardSettings
    from medagent.benchmarks.ward.twins import write

    own = None if dataset == "synthetic" else Path(dataset)
    return lambda folder: write(WardSettings(dataset=own, ehr=ehr), types_named(types), folder)


@app.command("verify")
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder from `medagent data new`.")],
    seed: Annotated[str | None, typer.Option(help="Its seed; by default the text of DIR/seed.txt.")] = None,
    types: Annotated[
        str | None, typer.Option("--from", metavar="FILE.py", help="The file of task types that it was made from.")
    ] = None,
    ehr: Annotated[Path | None, typer.Option(help="The patients that it was made from with --ehr.")] = None,
) -> None:
    """Make the data set again from its seed, and compare every byte.

    Example: medagent data verify fresh --seed 3f0c…
    """
    from medagent.benchmarks.fhiragentbench import sets as question_sets
    from medagent.benchmarks.fhiragentbench.generator.write import GENERATOR as FHIR_AGENTBENCH
    from medagent.benchmarks.made_folders import kept_seed
    from medagent.benchmarks.medagentbench.generator.write import differing
    from medagent.benchmarks.psb300 import tasks as task_sets
    from medagent.benchmarks.psb300.generator.write import GENERATOR as PSB300
    from medagent.benchmarks.twins import is_of_twins
    from medagent.benchmarks.ward.benchmark import types_named
    from medagent.benchmarks.ward.made import differing as own_differing
    from medagent.benchmarks.ward.tasks import TASKS, hospital_reads
    from medagent.core.errors import UserError

    if is_of_twins(folder):
        raise UserError(f"{folder}: follows from its set, not from a seed; make it again with medagent data twins")
    if hospital_reads(folder) is not None:
        raise UserError(f"{folder}: follows from a hospital's server, not from a seed")
    text = seed if seed is not None else kept_seed(folder)
    if (folder / TASKS).is_file():
        if types is None:
            raise UserError(f"{folder}: was made from a file of task types; pass the file with --from FILE.py")
        differences = own_differing(types_named(types), folder, text, ehr)
    elif task_sets.is_set(folder):
        differences = PSB300.differing(folder, task_sets.read_manifest(folder), text)
    elif question_sets.is_set(folder):
        differences = FHIR_AGENTBENCH.differing(folder, question_sets.read_manifest(folder), text)
    else:
        differences = differing(folder, text)
    for line in differences:
        print(f"{folder}: {line}")
    if differences:
        raise typer.Exit(1)
    print(f"{folder}: every byte follows from the seed")


@app.command("where")
def where(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A data set, such as simpleqa; default: all.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with complete digests.")] = False,
) -> None:
    """Show where to get the benchmarks' data sets, and their licences. Nothing is downloaded.

    Size and SHA-256 are shown for files that this project could read.

    Example: medagent data where simpleqa
    """
    from json import dumps

    from medagent.benchmarks.data_sources import data_sources
    from medagent.reports.tables import Table, print_table, put

    sources = data_sources(name)
    if json:
        print(dumps([one.model_dump() for one in sources], indent=1))
        return
    columns = ["data set", "file", "licence", "bytes", "SHA-256"]
    size = [f"{one.bytes:,}" if one.bytes else "–" for one in sources]
    rows = [
        [one.set, one.file, one.licence, bytes_, one.sha256[:16] or "–"]
        for one, bytes_ in zip(sources, size, strict=True)
    ]
    print_table(Table(columns, rows))
    for one in sources:
        put(f"{one.file}\n  from: {one.url}\n  use:  {one.use}")


@app.command("allow")
def allow(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, or folders of a data set.")],
) -> None:
    """Allow runs' folders on this machine to refer to these paths as their data.

    Your own runs need this only if their data has moved.

    Example: medagent data allow ../questions.jsonl
    """
    from medagent.core.errors import UserError
    from medagent.core.named_paths import remember

    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: no such file or folder")
        try:
            remember(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be allowed ({error.filename}: {error.strerror})") from None
        print(f"runs may refer to {path.resolve()}")


@app.command("chart")
def chart(
    mrn: Annotated[str, typer.Argument(metavar="MRN", help="The patient's medical record number.")],
    dataset: Annotated[str, typer.Option(help="`synthetic`, or a folder from `medagent data new`.")] = "synthetic",
    output: Annotated[Path | None, typer.Option(help="The file to write; by default MRN.html in this folder.")] = None,
) -> None:
    """Write a patient's chart as an HTML page: problems, drugs, stays, test results over time, notes.

    Example: medagent data chart S8949035

    Example: medagent data chart S8949035 --dataset fresh --output chart.html
    """
    from fhir_server.synthetic.bundled import hospital
    from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
    from medagent.core.errors import UserError
    from medagent.fhir_data.chart_page import chart_page, patient_resources

    path = load_dataset(dataset, "v2").hospital
    if path is None and dataset != "synthetic":
        raise UserError(f"--dataset {dataset}: contains no patients; pass synthetic or a folder from `data new`")
    target = output or Path(f"{mrn}.html")
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", mrn):
        raise UserError(f"{mrn!r} is not a medical record number: letters, digits and hyphens are expected")
    if path is None:
        resources = patient_resources(hospital(), mrn)
    else:
        with path.open(encoding="utf-8") as lines:
            resources = patient_resources(lines, mrn)
    with writing(target):
        target.write_text(chart_page(resources), encoding="utf-8", newline="\n")
    print(f"{target}: {len(resources)} resources")
