"""`medagent data`: data sets from a seed, published data taken over, and tasks for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.cli import tasks
from medagent.terminal.groups import group
from medagent.terminal.settings import fields_of, with_options

TASK_OPTIONS = ("version", "dataset", "types", "ids", "limit", "per_type")

app = group(
    "Data sets from a seed: a hospital and tasks that nobody has seen; tasks for other tools (export). Without a "
    "subcommand: list what there is.\n\n"
    "Example: medagent data new fresh && medagent run --dataset fresh --agent reference",
    no_args_is_help=False,
)
app.callback(invoke_without_command=True)(tasks.list_tasks)


@app.command("import")
def import_(
    source: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="A published question file, or a checkout of a benchmark.")
    ],
) -> None:
    """Take over the published data of a benchmark, which is not packed with medagent: all of it, or nothing.

    Example: medagent data import questions.csv

    Example: medagent data import ~/src/MedAgentBench
    """
    from medagent.benchmarks.base import find, names
    from medagent.core.errors import UserError

    for name in names():
        if (done := find(name).import_data(source)) is not None:
            print(done)
            return
    raise UserError(
        f"{source}: is no published data of {', '.join(names())}; name a question file (.csv), judge_cases.jsonl, or a "
        "checkout of MedAgentBench"
    )


@app.command("new")
def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    seed: Annotated[
        str | None, typer.Option(help="Any text; by default a secret one of 128 bits, kept in DIR/seed.txt.")
    ] = None,
    like: Annotated[
        Literal["bundled", "full", "shift"] | None,
        typer.Option(
            help="bundled (default); full (the size of the original); shift (other thresholds, codes, units, clock)."
        ),
    ] = None,
    split: Annotated[
        Literal["train", "dev", "test", "ood"] | None,
        typer.Option(help="For training and its tests; their seeds cannot meet. ood is a shift set in other words."),
    ] = None,
    patients: Annotated[int, typer.Option(help="How many patients.")] = 100,
    per_type: Annotated[int, typer.Option(help="How many tasks of each type; v1 has a third of them.")] = 30,
) -> None:
    """Make a hospital and its tasks (v1 and v2, with answer keys), the same bytes for the same seed everywhere.

    Example: medagent data new fresh --like shift
    """
    from medagent.benchmarks.medagentbench.generator.write import Wanted, make

    kind = like or ("shift" if split == "ood" else "bundled")
    made = make(folder, Wanted(kind, split, seed, patients, per_type))
    resources = sum(made.resources.values())
    print(f"{folder}: {made.name}: {made.patients} patients, {resources} resources, {10 * per_type} tasks")
    print(f"SHA-256 of the seed: {made.seed_sha256}")
    if made.private:
        print(
            f"The seed is secret, in {folder / 'seed.txt'}: publish its SHA-256 now, the seed when the set is retired."
        )
    else:
        print("Not private: whoever guesses the seed makes the same set. Leave --seed out for a secret one.")
    print(f"Run it: medagent run --dataset {folder} --agent reference")


@app.command("verify")
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of `medagent data new`.")],
    seed: Annotated[str | None, typer.Option(help="Its seed; by default what DIR/seed.txt holds.")] = None,
) -> None:
    """Make the data set again from its seed, and say whether every byte agrees.

    Example: medagent data verify fresh --seed 3f0c…
    """
    from medagent.benchmarks.medagentbench.generator.write import differing, kept_seed

    found = differing(folder, seed if seed is not None else kept_seed(folder))
    for line in found:
        print(f"{folder}: {line}")
    if found:
        raise typer.Exit(1)
    print(f"{folder}: every byte is what the seed gives")


exports = group("Tasks in the form of another tool.\n\nExample: medagent data export harbor tasks/ --per-type 3")
app.add_typer(exports, name="export")


@exports.callback()
def _exports() -> None:
    """Tasks in the form of another tool."""


@exports.command("harbor")
@with_options(fields_of(MedAgentBenchSettings, *TASK_OPTIONS))
def harbor(
    given: dict[str, Any],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
) -> None:
    """A folder a task that Harbor runs: any agent in a container, the record served over HTTP, a reward of 1.0 or 0.0.

    Example: medagent data export harbor tasks/ --version v2 --per-type 3

    Example: medagent data export harbor tasks/ --dataset fresh
    """
    from medagent.benchmarks.base import DEFAULT, find
    from medagent.integrations.harbor.tasks import export_harbor

    benchmark: Any = find(DEFAULT)
    done = export_harbor(benchmark, folder, given)
    if done.unsolved:
        print(f"without solution/, as the reference agent does not get them right: {', '.join(done.unsolved)}")
    print(f"{folder}: {done.tasks} tasks. Run them: harbor run -p {folder} -a oracle")
