"""`medagent skill`: does a skill, a prompt or a protocol help? Two runs in turns, compared item by item."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from medagent.cli._benchmarks import per_benchmark
from medagent.terminal import options
from medagent.terminal.settings import fields_of

Folder = Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The skill's folder; without it, the plain run.")]
Against = Annotated[
    Path | None, typer.Option("--against", metavar="DIR2", help="Compare with another skill.", show_default=False)
]
AgainstSystem = Annotated[
    Path | None,
    typer.Option("--against-system", metavar="FILE", help="Compare with a system prompt.", show_default=False),
]
AgainstProtocol = Annotated[
    str | None,
    typer.Option(
        "--against-protocol",
        metavar="NAME",
        help="Compare with another protocol (and the same skill).",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class SideOptions:
    """How a run differs from the run that it is compared with: its name, the end of its round, and options."""

    name: str
    suffix: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def command(
    benchmark: Any,
    values: dict[str, Any],
    folder: Folder = None,
    against: Against = None,
    against_system: AgainstSystem = None,
    against_protocol: AgainstProtocol = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
    help_all: options.HelpAll = False,
) -> None:
    """Answer "does this skill help?": run the items without and with it, in turns, and compare them item by item.

    Each side is a run of its own in the results folder; budgets such as --max-cost apply to each. Repeat the command to
    continue; a finished side is reused. Exit code 2: items are owed.

    Example: medagent skill skills/dosing --model gpt-4o-mini --max-cost 5

    Example: medagent skill --against-protocol tools --model gpt-4o-mini
    """
    import json

    from medagent.cli._config import defaults
    from medagent.core.options import checked
    from medagent.engine.patient_data import shown_elsewhere
    from medagent.reports.compare import Comparison
    from medagent.reports.sides import Side, document, print_sides
    from medagent.terminal.signals import run_to_end

    known = {**defaults(benchmark, None), **values}
    sides = _sides(folder, against, against_system, against_protocol)
    base = checked(benchmark.Settings, {**known, **sides[0].options})
    settings = [
        checked(
            benchmark.Settings,
            {**known, **side.options, "round": f"{base.round}-{side.suffix}" if side.suffix else base.round},
        )
        for side in sides
    ]
    reports = run_to_end(_run_in_turns(benchmark, settings, quiet))
    import medagent._api as api

    compared = api.compare(reports[0].folder, reports[1].folder, benchmark=benchmark.reference or None)
    assert isinstance(compared, Comparison)  # both sides have the same data set
    shown = [shown_elsewhere(report, Path(report.folder)) if as_json else report for report in reports]
    both = Side(sides[0].name, shown[0]), Side(sides[1].name, shown[1])
    if as_json:
        print(json.dumps(document(both, compared), indent=1))
    else:
        print_sides(both, compared)
    raise typer.Exit(0 if all(report.complete for report in reports) else 2)


def _sides(
    folder: Path | None, against: Path | None, system: Path | None, protocol: str | None
) -> tuple[SideOptions, SideOptions]:
    """The two runs. Raises UserError if it is not clear what is compared."""
    from medagent.core.errors import UserError

    named = [name for name in (against, system, protocol) if name is not None]
    if len(named) > 1:
        raise UserError("pass one of --against, --against-system and --against-protocol")
    if folder is None and not named:
        raise UserError("name a skill's folder, or what to compare with: --against DIR2, --against-system FILE, …")
    plain = SideOptions("without")
    first = plain if folder is None else _with_skill(folder)
    if against is not None:
        return first, _with_skill(against)
    if system is not None:
        return first, SideOptions(f"system {system.stem}", f"system-{_label(system.stem)}", {"system": system})
    if protocol is not None:
        suffix = "-".join(filter(None, [first.suffix, _label(protocol)]))
        return first, SideOptions(protocol, suffix, {**first.options, "protocol": protocol})
    return plain, first


def _with_skill(folder: Path) -> SideOptions:
    """The run with a skill. Raises UserError if the folder contains none."""
    from medagent.agents.skills import read_skill

    name = read_skill(folder).name
    return SideOptions(f"with {name}", f"with-{name}", {"skill": [folder]})


def _label(text: str) -> str:
    """A text as a part of a folder's name."""
    import re

    return re.sub(r"[^\w.-]", "-", text)


async def _run_in_turns(benchmark: Any, settings: list[Any], quiet: bool) -> list[Any]:
    """Run both sides, each starting an item in turn, and return their reports."""
    import asyncio
    from dataclasses import replace
    from functools import partial

    from medagent.engine.run import execute
    from medagent.engine.turns import Turns
    from medagent.reports.power import noise_before
    from medagent.reports.tables import say

    printed = set[str]()

    def say_once(text: str) -> None:
        """Print a message, unless the other side's run has printed it."""
        if text not in printed:
            printed.add(text)
            say(text)

    plans = [await benchmark.plan(of_side, say_once) for of_side in settings]
    if noise := noise_before(plans[0], benchmark):
        say(noise)
    turns = Turns()

    async def run(number: int) -> Any:
        plan = replace(plans[number], turn=partial(turns.take, number), repeat="repeat the command")
        try:
            return await execute(plan, benchmark, quiet=quiet or number == 0, say=say_once)
        finally:
            await turns.leave(number)

    return list(await asyncio.gather(run(0), run(1)))


def _fields(benchmark: Any) -> list[Any]:
    """The options of a run, without those that the command itself chooses."""
    return [option for option in fields_of(benchmark.Settings, use="run") if option.name != "skill"]


def _rare(benchmark: Any) -> list[Any]:
    from medagent.cli._run import rare

    return rare(benchmark)


app = per_benchmark(
    "medagent skill",
    command,
    "Does a skill, a prompt or a protocol help? Run both sides in turns, and compare them item by item.",
    _fields,
    rare=_rare,
    fhir=True,
    argument=True,
)
