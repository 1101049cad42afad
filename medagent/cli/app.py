"""The `medagent` command: puts the commands together, and turns errors into one line and an exit code.

Exit codes: 0 done; 1 something the user can mend; 2 some episodes failed, or could not be graded, for other reasons;
130 interrupted.
"""

from __future__ import annotations

import sys

import typer

from medagent.cli import (
    compare,
    data,
    doctor,
    ehr,
    grade,
    imapscore,
    key,
    promptcblue,
    run,
    serve,
    show,
    simpleqa,
    validate,
    version,
)

app = typer.Typer(
    name="medagent",
    help=(
        "Run medical agents and models on medical benchmarks, keep what happened, grade it.\n\n"
        "Example: medagent run --version v2 --round r2 --agent reference"
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(run.app, name="run")
app.command("grade")(grade.command)
app.command("validate")(validate.command)
app.command("show")(show.command)
app.command("compare")(compare.command)
app.command("serve")(serve.command)
app.command("doctor")(doctor.command)
app.command("version")(version.command)
app.add_typer(data.app, name="data")
app.add_typer(ehr.app, name="ehr")
app.add_typer(key.app, name="key")
app.add_typer(promptcblue.app, name="promptcblue")
app.add_typer(simpleqa.app, name="simpleqa")
app.add_typer(imapscore.app, name="imapscore")


def main() -> None:
    """Run the command line of this process and exit."""
    from medagent.errors import MedagentError
    from refsol.errors import RefsolError

    try:
        sys.exit(app(_spelled(sys.argv[1:]), standalone_mode=False))
    except typer.TyperException as error:
        message = error.format_message() if isinstance(error, typer.BadParameter) else str(error)
        print(f"medagent: {message} (medagent --help lists what there is)", file=sys.stderr)
        sys.exit(1)
    except (typer.Abort, KeyboardInterrupt):
        print("medagent: interrupted", file=sys.stderr)
        sys.exit(130)
    except (MedagentError, RefsolError) as error:
        print(f"medagent: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of a pipe went away (`medagent … | head`): nothing is left to say.
        sys.stderr.close()
        sys.exit(0)


def _spelled(words: list[str]) -> list[str]:
    """The words with `--agent replay FILE` spelled out: the file is the value of the hidden option `--replay`.

    No words at all ask for help.
    """
    spelled = list(words) or ["--help"]
    for place, (option, value, file) in enumerate(zip(words, words[1:], words[2:], strict=False), 2):
        if (option, value) == ("--agent", "replay") and not file.startswith("-"):
            spelled.insert(place, "--replay")
    return spelled
