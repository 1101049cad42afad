"""`medagent submit`: packs a run into one archive, and checks these archives."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from medagent.terminal import options
from medagent.terminal.groups import group

app = group("Pack a run into one archive that others can check.\n\nExample: medagent submit pack results/v2_r2_gpt-4o")
LISTED = 20


@app.command("pack")
def pack(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run of MedAgentBench.")],
    out: Annotated[Path | None, typer.Option(help="The archive; by default RUN.zip next to the folder.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Pack a run that lacks episodes; the leaderboard does not rank it.")
    ] = False,
    with_skill: Annotated[
        bool, typer.Option("--with-skill", help="Include the texts of the run's skills, which others can then read.")
    ] = False,
    with_patient_data: options.WithPatientData = False,
) -> None:
    """Pack a run's results, journal (without API keys), settings and digests into an archive of at most 100 MB.

    Example: medagent submit pack results/v2_r2_gpt-4o --out gpt-4o.zip
    """
    from medagent.benchmarks.published import write_pack
    from medagent.engine.patient_data import check_exported
    from medagent.reports.tables import put, say

    check_exported(run, with_patient_data=with_patient_data)

    target = out or run.with_name(run.name + ".zip")
    pack = write_pack(run, target, partial=partial, with_skill=with_skill)
    command = shlex.join(["medagent", "submit", "check", str(target)])
    put(f"{target}: {target.stat().st_size} bytes, {len(pack.files)} files; {command}")
    if pack.prompts_left_out:
        say(
            "medagent: the archive lacks the run's custom prompts or skills, because their files are missing or have "
            "changed, or because --with-skill was not passed; `submit check` cannot replay the episodes"
        )


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive from `medagent submit pack`.")],
    dataset: Annotated[str | None, typer.Option(help="Its data set, if it is not where it was during the run.")] = None,
    ehr: Annotated[Path | None, typer.Option(help="The patients' data, if the data set contains none.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Grade an archive again, replay its episodes on the data set, and list the verified and the unverified claims.

    Exit code 0: no problem; 1: the files contradict each other; 2: the episodes cannot be replayed, because the run had
    custom prompts or its own FHIR server.

    Example: medagent submit check gpt-4o.zip
    """
    from medagent.benchmarks.published import check_pack
    from medagent.core.number_formats import percent
    from medagent.reports.tables import put

    checked = check_pack(file, dataset=dataset, ehr=ehr)
    code = 2 if checked.no_replay else 0
    if checked.problems:
        code = 1
    score = checked.report.overall if checked.report else None
    if as_json:
        document = {
            "exit_code": code,
            "problems": checked.problems,
            **checked.checks.document,
            "score": score.model_dump(mode="json") if score else None,
        }
        print(json.dumps(document, indent=1))
    else:
        for line in checked.checks.lines:
            put(line)
        for line in checked.problems[:LISTED]:
            put(f"wrong: {line}")
        if len(checked.problems) > LISTED:
            put(f"wrong: {len(checked.problems) - LISTED} more")
        if score is not None:
            put(f"score: {score.counts['right']} of {score.n} ({percent(score.value)})")
        for line in checked.needless:
            put(line)
    raise typer.Exit(code)
