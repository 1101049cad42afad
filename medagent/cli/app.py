"""The `medagent` command: the table of commands; turns errors into one line and an exit code.

Exit codes: 0 done; 1 an error that the user can fix; 2 some items failed or could not be graded for other reasons;
130 interrupted; 143 and 129 ended by SIGTERM and SIGHUP.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from medagent.terminal.groups import Lazy, LazyGroup

COMMANDS = {
    "Run and read": {
        "run": Lazy("medagent.cli._run:app", "Run a benchmark: MedAgentBench, or the one that you name."),
        "show": Lazy("medagent.cli._show:command", "Show a run, or one of its items: messages and verdict."),
        "report": Lazy(
            "medagent.cli._report:command", "Write an HTML file that shows why each item is right or wrong."
        ),
        "view": Lazy("medagent.cli._view:command", "List the runs of a folder on a local page, with their reports."),
        "compare": Lazy("medagent.cli._compare:command", "Compare runs item by item: which changed, more than chance?"),
        "skill": Lazy("medagent.cli._skill:app", "Does this skill, prompt or protocol help? Two runs in turns."),
        "grade": Lazy(
            "medagent.cli._grade:command", "Grade a results file or a run's folder, with a reason for each item."
        ),
        "leaderboard": Lazy("medagent.cli._leaderboard:command", "Print the scores of runs as a Markdown table."),
    },
    "Data": {
        "data": Lazy("medagent.cli._data:app", "Task sets: list, import, check, make; answer keys; patient charts."),
        "ehr": Lazy(
            "medagent.cli._ehr:app", "Patients: FHIR data in files and servers; build, import, export, copy, push."
        ),
        "validate": Lazy("medagent.cli._validate:command", "List every problem of a results file with its place."),
        "export": Lazy("medagent.cli._export:app", "Write a run, or tasks, in another tool's format."),
        "submit": Lazy("medagent.cli._submit:app", "Pack a run into one archive that others can check."),
    },
    "Serve": {
        "serve": Lazy(
            "medagent.cli._serve:command", "Serve FHIR R4 over HTTP: the bundled hospital, or your own data."
        ),
        "mcp": Lazy("medagent.cli._mcp:app", "Offer tasks, or a FHIR server, to any MCP client."),
        "a2a": Lazy("medagent.cli._a2a:app", "Agents that speak A2A: assess one, or offer a model as one."),
        "harbor": Lazy("medagent.cli._harbor:app", "What the containers of `export harbor` run.", hidden=True),
    },
    "One benchmark": {
        "promptcblue": Lazy("medagent.benchmarks.promptcblue.commands:app", "PromptCBLUE: parse, score, package."),
        "simpleqa": Lazy("medagent.benchmarks.simpleqa.commands:app", "SimpleQA: score, export, the published prompt."),
        "imapscore": Lazy("medagent.benchmarks.imapscore.commands:app", "imapScore: score, explain, correlate."),
    },
    "More": {
        "judge": Lazy("medagent.cli._judge:app", "Judges: check one, judge a run again, compare judges."),
        "power": Lazy("medagent.cli._power:command", "The smallest difference between two runs that is not chance."),
        "doctor": Lazy(
            "medagent.cli._doctor:command", "Check this installation: one line per check, ok or what to do."
        ),
        "docs": Lazy("medagent.cli._docs:command", "Print a page of the documentation, or list the pages."),
    },
}
"""The commands by the headings of `medagent --help`."""
OVERVIEW = (
    "Run medical agents and models on medical benchmarks, store what they did, and grade it.\n\n"
    "Example: medagent run --version v2 --round r2 --agent reference"
)


class Commands(LazyGroup):
    """The commands of `COMMANDS`."""

    sections = COMMANDS

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the line for coding agents; a terminal's width does not break its path."""
        from medagent.cli._docs import DOCS

        formatter.write(f"\nFor coding agents: run `medagent docs skill`. All pages are in {DOCS}\n")


app = typer.Typer(
    name="medagent",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(version: bool) -> None:
    if version:
        from medagent.core.version import versions

        print(", ".join(f"{name} {value}" for name, value in versions().items()))
        raise typer.Exit


@app.callback(help=OVERVIEW)
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line of this process and exit."""
    from medagent.core.errors import MedagentError
    from refsol.errors import Lines, RefsolError

    try:
        sys.exit(app(spelled(sys.argv[1:]), standalone_mode=False))
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its message is its help
            print(error)
            sys.exit(0)
        _complain(_message(error))
        sys.exit(1)
    except (typer.Abort, KeyboardInterrupt):
        print("medagent: interrupted", file=sys.stderr)
        sys.exit(130)
    except (MedagentError, RefsolError) as error:
        _complain(next((text for text in error.args[:1] if isinstance(text, Lines)), str(error)))
        sys.exit(1)
    except BrokenPipeError:
        # The reader of the pipe has closed it (`medagent … | head`).
        sys.stderr.close()
        sys.exit(0)


def _complain(text: str) -> None:
    from medagent.core.scrub import one_line
    from refsol.errors import Lines

    lines = text.split("\n") if isinstance(text, Lines) else [text]
    print("medagent:", "\n".join(map(one_line, lines)), file=sys.stderr)


def _message(error: typer.TyperException) -> str:
    """The error in the command line, and the command whose help to read."""
    text = _words(error)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "medagent"
    return f"{text} (see {path} --help)"


def _words(error: typer.TyperException) -> str:
    """The error in medagent's words; typer would repeat pydantic's message."""
    if isinstance(error, typer.BadParameter):
        from pydantic import ValidationError

        from refsol.schema import fault_text

        if isinstance(error.__cause__, ValidationError) and error.param is not None:
            first = error.__cause__.errors(include_url=False)[0]
            return f"{max(error.param.opts, key=len)} {first['input']}: {fault_text(first)}"
        return error.format_message()
    if (option := getattr(error, "option_name", "")) in _OTHER_NAMES and _takes(error, _OTHER_NAMES[option]):
        return f"{error}. Did you mean {_OTHER_NAMES[option]} FILE?"
    if possibilities := getattr(error, "possibilities", None):
        return f"{error}. Did you mean {possibilities[0]!r}?"
    return str(error)


_OTHER_NAMES = {"--tasks": "--dataset"}
"""Options that some commands call by another name."""


def _takes(error: typer.TyperException, option: str) -> bool:
    """Whether the command that refused its options takes this one."""
    context = getattr(error, "ctx", None)
    return context is not None and any(option in parameter.opts for parameter in context.command.params)


def spelled(words: list[str]) -> list[str]:
    """The words of the command line, with short formats written out.

    `--agent replay FILE`: the file is the value of the hidden option `--replay`. `grade NAME --answers FILE`: a run of
    that benchmark with stored answers. No words: help.
    """
    result = list(words) or ["--help"]
    for place, (option, value, file) in enumerate(zip(words, words[1:], words[2:], strict=False), 2):
        if (option, value) == ("--agent", "replay") and not file.startswith("-"):
            result.insert(place, "--replay")
    if words[:1] == ["grade"] and any(word.partition("=")[0] == "--answers" for word in words):
        result[0] = "run"
    return result
