"""`medagent data`: the task sets on this machine, published data, sets from a seed, and answer keys."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from medagent.benchmarks.clinical.settings import HospitalSettings
from medagent.core.writing import writing
from medagent.terminal.groups import group
from medagent.terminal.settings import fields_of, with_options

app = group(
    "Data of the benchmarks: task sets, published files, new sets from a seed, answer keys. Without a subcommand: list "
    "the task sets.\n\n"
    "Example: medagent data new fresh && medagent run --dataset fresh --agent reference",
    no_args_is_help=False,
)

_SETS = ("synthetic", "official", "published")
"""The names of bundled and imported sets."""
_OF_PATIENTS = "patients ehr fhir patient_ids group now id_system concurrency fhir_header insecure_http ca_file"


@app.callback(invoke_without_command=True)
def list_data(context: typer.Context) -> None:
    """Without a subcommand: list the task sets, and whether the bundled hospital is built.

    Example: medagent data
    """
    if context.invoked_subcommand is not None:
        return
    from medagent.benchmarks.base import installed
    from medagent.fhir_data.embedded import built_hospital
    from medagent.reports.tables import Cell, Table, print_table, put

    sets = [present for benchmark in installed() for present in benchmark.present_sets() if present.digest]
    rows: list[list[Cell]] = [
        [data_set.name, data_set.version, data_set.items, data_set.digest[:16]] for data_set in sets
    ]
    print_table(Table(["name", "version", "tasks", "digest"], rows, "Task sets"))
    for name, folder in {data_set.name: data_set.folder for data_set in sets}.items():
        put(f"{name}: {folder}")
    put(f"hospital: {built_hospital() or 'not built yet; the first run or `medagent ehr build` builds it'}")


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
    from medagent.benchmarks.base import installed
    from medagent.core.errors import UserError
    from medagent.engine.data_sets import ImportedData
    from medagent.reports.tables import put, say

    if not source.exists():
        raise UserError(f"{source}: no such file or folder")
    benchmarks = installed()
    done = [data for benchmark in benchmarks if (data := benchmark.import_data(source)) is not None]
    for data in (ImportedData(line) if isinstance(line, str) else line for line in done):
        put(*data.message.split("\n"))
        for warning in data.warnings:
            say(f"warning: {warning}")
    if not done:
        expected = "; ".join(benchmark.imports for benchmark in benchmarks if benchmark.imports)
        raise UserError(f"{source}: contains no published data that medagent imports. It imports {expected}")


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A task file of your own (JSON), or a set's folder.")],
    types: Annotated[
        str | None, typer.Option("--from", metavar="FILE.py", help="The file of task types, for a set made from one.")
    ] = None,
    left_out: Annotated[
        bool, typer.Option("--left-out", help="List the ids of the patients of a set that are left out, with reasons.")
    ] = False,
    with_patient_data: Annotated[
        bool, typer.Option("--with-patient-data", help="With --left-out: list ids of a hospital's own patients, too.")
    ] = False,
) -> None:
    """Check your own task file or a set: list its problems, or its tasks. Exit code 1 if it cannot be used.

    In a set, every file must be as its manifest lists it, and every rule must give a ruling. Of a set of your own task
    types, medagent prints from which patients the tasks are, and why others were left out.

    Example: medagent data check my_tasks.json

    Example: medagent data check fresh

    Example: medagent data check ward --from ward7.py --left-out
    """
    from medagent.benchmarks.base import of_dataset
    from medagent.reports.tables import put

    if left_out:
        _list_left_out(file, with_patient_data)
        return
    benchmark, _ = of_dataset(str(file), types)
    line, problems = benchmark.check_set(file)
    for problem in problems:
        put(*f"warning: {problem}".split("\n"))
    put(*line.split("\n"))


def _list_left_out(folder: Path, with_patient_data: bool) -> None:
    """Print the patients that are left out of a set, or that there is none. Raises UserError."""
    from medagent.core.errors import UserError
    from medagent.engine.data_sets import read_manifest
    from medagent.reports.tables import put

    manifest = read_manifest(folder)
    if manifest.generated is not None and manifest.generated.server and not with_patient_data:
        raise UserError(f"{folder}: was made from a hospital's own server; pass --with-patient-data to list its ids")
    for name, reasons in manifest.left_out.items():
        for reason, patients in reasons.items():
            put(*(f"{name}: {patient}: {reason}" for patient in patients))
    if not manifest.accounts:
        put(f"{folder}: the set does not record which patients are left out")
    elif not any(patients for reasons in manifest.left_out.values() for patients in reasons.values()):
        put(f"{folder}: no patient is left out")


@app.command("schema")
def schema() -> None:
    """Print the JSON schema of a task file.

    Example: medagent data schema > tasks.schema.json
    """
    import json

    from medagent.benchmarks.published import task_schema

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
    from medagent.benchmarks.published import write_answer_key
    from medagent.core.errors import UserError
    from medagent.reports.tables import put

    if fhir is None and ehr is None:
        raise UserError("pass the source of the facts: --fhir URL or --ehr FILE.ndjson")
    patients, searches, number = write_answer_key(out, str(tasks or dataset), version, fhir, ehr)
    put(f"{out}: {patients} patients and {searches} searches for {number} tasks")


@app.command("new")
@with_options(fields_of(HospitalSettings, *_OF_PATIENTS.split()))
def new(
    values: dict[str, Any],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    seed: Annotated[
        str | None, typer.Option(help="Any text; by default 128 secret random bits, stored in DIR/seed.txt.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="The kind of set: bundled (default), full (size of the original), shift (other thresholds, "
            "codes, units and clock), or a benchmark: psb-300, fhir-agentbench, or an installed one.",
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

    Example: medagent data new injected --injected 20%
    """
    from medagent.benchmarks.clinical.injected import share_of
    from medagent.core.errors import UserError
    from medagent.core.options import checked, refuse_idle
    from medagent.engine.data_sets import SetOptions

    server = checked(HospitalSettings, values)
    refuse_idle(server)
    if types is not None and (like is not None or split is not None):
        raise UserError("--from FILE.py makes tasks of your own types: leave --like and --split out")
    if injected is not None and server.fhir is not None:
        raise UserError("--injected changes charts, so it needs patients in a file: --ehr FILE instead of --fhir URL")
    share = 0.0 if injected is None else share_of(injected)
    options = SetOptions("", split, seed, server.patients, per_type, share, server.ehr)
    _new(folder, like, types, options, server)


def _new(folder: Path, like: str | None, types: str | None, options: Any, server: HospitalSettings) -> None:
    """Make the set of a benchmark or of a file of task types, and print what was made."""
    from dataclasses import replace

    from medagent.benchmarks.base import BUNDLED, of_dataset, of_kind

    benchmark, kind = of_kind(like) if types is None else (of_dataset(BUNDLED, types)[0], "")
    options = replace(options, like=kind)
    if server.fhir is not None:
        _from_server(benchmark, folder, options, server)
        return
    generated = benchmark.generator().make(folder, options)
    _describe(folder, benchmark, generated, server.ehr is not None)


def _from_server(benchmark: Any, folder: Path, options: Any, server: HospitalSettings) -> None:
    """Make a set over the patients of a hospital's own server."""
    from medagent.benchmarks.clinical.from_server import new_set_from
    from medagent.fhir_episodes.benchmark import server_warnings
    from medagent.reports.tables import put, say
    from medagent.terminal.counter import Counter

    private = server.model_copy(update={"writes": "private"})
    for warning in server_warnings(private):
        say(f"warning: {warning}")
    generated, clock = new_set_from(benchmark, folder, options, private, say, Counter("patients"))
    put(*generated.lines)
    put(
        f"{folder}: {generated.name}: {generated.tasks} tasks from {generated.generation.patients} patients, at {clock}"
    )
    put("The folder contains patients' data, which only you can read (mode 0600). Keep it on this machine.")
    words = ["--dataset", str(folder), "--fhir", str(server.fhir), "--writes", "private"]
    put(f"Run it: {benchmark.command} {shlex.join(words)} --agent reference")


def _describe(folder: Path, benchmark: Any, generated: Any, own_patients: bool) -> None:
    """Print what was made, and how to run it.

    With a user's own patients, the seed only chooses among them, so its secret protects nothing.
    """
    from medagent.reports.tables import put

    for line in generated.lines:
        put(line)
    generation = generated.generation
    name = "" if benchmark.is_default else benchmark.reference or benchmark.name
    resources, words = sum(generation.resources.values()), " ".join(filter(None, (name, generated.name)))
    put(f"{folder}: {words}: {generation.patients} patients, {resources} resources, {generated.tasks} tasks")
    if not own_patients:
        _describe_seed(folder, generation)
    put(f"Run it: {_run_command(benchmark, folder)} --agent reference")


def _run_command(benchmark: Any, folder: Path) -> str:
    """The command that runs a set, without an agent, as a shell reads it. Writes are carried out if items demand it."""
    from medagent.core.options import checked
    from medagent.fhir_episodes.benchmark import FhirBenchmark

    command = f"{benchmark.command} {shlex.join(['--dataset', str(folder)])}"
    if not isinstance(benchmark, FhirBenchmark):
        return command
    source = checked(benchmark.Settings, {"dataset": str(folder)})
    changing = benchmark.changing(source, benchmark.read_items(source))
    return f"{command} --writes execute" if changing else command


def _describe_seed(folder: Path, generation: Any) -> None:
    from medagent.reports.tables import put

    put(f"SHA-256 of the seed: {generation.seed_sha256}")
    if generation.private:
        put(f"The seed in {folder / 'seed.txt'} is secret: publish its SHA-256 now, the seed when the set is retired.")
    else:
        put("Not private: anyone who guesses the seed can make the same set. Omit --seed for a secret seed.")


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
    triples: Annotated[
        bool,
        typer.Option("--triples", help="Each item occurs three times: for agents with a memory, and trained models."),
    ] = False,
) -> None:
    """Make a set in which each item occurs twice, over two charts. No reply is right on both, so guessing is worthless.

    Both have the same patient, text and clock; one deciding fact of the chart differs. An item counts as right if the
    replies to both are right and the agent read the deciding data. For questions of FHIR-AgentBench, one of the two
    charts does not contain the answer.

    An agent that remembers earlier items can guess: it does nothing the first time, and sends the usual order the
    second time. With --triples, one of the two charts occurs twice, in a random order, and all three replies must be
    right. A fixed order of replies is right for at most a sixth of the triples.

    Example: medagent data twins && medagent run --dataset twins --agent reference

    Example: medagent data twins psb-300 --out psb-twins

    Example: medagent data twins fhir-agentbench --out question-twins

    Example: medagent data twins ward-set --from ward7.py --out ward-twins
    """
    from medagent.benchmarks.base import installed, names, of_dataset
    from medagent.benchmarks.generated_sets import make_folder
    from medagent.core.errors import UserError
    from medagent.core.number_formats import counted
    from medagent.engine.benchmark import Benchmark
    from medagent.reports.tables import put
    from medagent.terminal.counter import Counter

    benchmark, name = of_dataset(dataset, types)
    if dataset not in (*_SETS, *names()) and not Path(dataset).exists():
        makers = [benchmark for benchmark in installed() if type(benchmark).new_twins is not Benchmark.new_twins]
        known = ", ".join([*_SETS, *(benchmark.reference or benchmark.name for benchmark in makers)])
        raise UserError(f"unknown data set {dataset!r}; known: {known}, and a folder, task file or question file")
    tell = Counter("items")
    generated = make_folder(out, "", lambda _: benchmark.new_twins(name, ehr, out, triples=triples, tell=tell))
    pairs, items = generated.size
    put(*generated.words)
    put(f"{out}: {counted(pairs, generated.noun)}, {counted(items, 'items')}")
    agent = "nop" if dataset.endswith(".csv") else "reference"  # which reads only generated questions
    put(f"Run it: {_run_command(benchmark, out)} --agent {agent}")


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
    from medagent.benchmarks.base import of_dataset
    from medagent.benchmarks.generated_sets import stored_seed
    from medagent.core.errors import UserError
    from medagent.engine.data_sets import read_manifest
    from medagent.reports.tables import put

    generation = read_manifest(folder).generated
    if generation is None:
        raise UserError(f"{folder}: was not made from a seed")
    if generation.twins_of:
        raise UserError(f"{folder}: follows from its set, not from a seed; make it again with medagent data twins")
    if generation.server:
        raise UserError(f"{folder}: follows from a hospital's server, not from a seed")
    benchmark, _ = of_dataset(str(folder), types)
    stated = seed if seed is not None else stored_seed(folder)
    differences = benchmark.generator().differing(folder, read_manifest(folder), stated, ehr)
    for line in differences:
        put(f"{folder}: {line}")
    if differences:
        raise typer.Exit(1)
    put(f"{folder}: every byte follows from the seed")


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
        print(dumps([source.model_dump() for source in sources], indent=1))
        return
    columns = ["data set", "file", "licence", "bytes", "SHA-256"]
    size = [f"{source.bytes:,}" if source.bytes else "–" for source in sources]
    rows = [
        [source.set, source.file, source.licence, bytes_, source.sha256[:16] or "–"]
        for source, bytes_ in zip(sources, size, strict=True)
    ]
    print_table(Table(columns, rows))
    for source in sources:
        put(source.file, f"  from: {source.url}", f"  use:  {source.use}")


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
    from medagent.reports.tables import put

    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: no such file or folder")
        try:
            remember(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be allowed ({error.filename}: {error.strerror})") from None
        put(f"runs may refer to {path.resolve()}")


@app.command("chart")
def chart(
    mrn: Annotated[str, typer.Argument(metavar="MRN", help="The patient's medical record number.")],
    dataset: Annotated[str, typer.Option(help="`synthetic`, or a folder from `medagent data new`.")] = "synthetic",
    output: Annotated[Path | None, typer.Option(help="The file to write; by default MRN.html in this folder.")] = None,
) -> None:
    """Write a patient's chart as an HTML page: problems, drugs, stays, test results over time, notes.

    Example: medagent data chart S2577260

    Example: medagent data chart S2577260 --dataset fresh --output chart.html
    """
    from fhir_server.synthetic.bundled import hospital
    from medagent.benchmarks.generated_sets import set_hospital
    from medagent.core.errors import UserError
    from medagent.fhir_data.chart_page import chart_page, patient_resources
    from medagent.reports.tables import put

    target = output or Path(f"{mrn}.html")
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", mrn):
        raise UserError(f"{mrn!r} is not a medical record number: letters, digits and hyphens are expected")
    if dataset == "synthetic":
        resources = patient_resources(hospital(), mrn)
    else:
        with set_hospital(Path(dataset)).open(encoding="utf-8") as lines:
            resources = patient_resources(lines, mrn)
    with writing(target):
        target.write_text(chart_page(resources), encoding="utf-8", newline="\n")
    put(f"{target}: {len(resources)} resources")
