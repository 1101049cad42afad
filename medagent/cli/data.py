"""`medagent data`: earlier names of `medagent tasks`, `medagent ehr build` and `medagent ehr push`."""

from __future__ import annotations

import typer

from medagent.cli import ehr, tasks
from medagent.terminal.groups import WholeGroup

app = typer.Typer(
    cls=WholeGroup,
    help="The earlier name of `medagent tasks` (list, import) and of `medagent ehr build` and `medagent ehr push`.",
    add_completion=False,
    rich_markup_mode=None,
)
app.callback(invoke_without_command=True)(tasks.list_tasks)
app.command("import")(tasks.import_)
app.command("build")(ehr.build)
app.command("push")(ehr.push)
