"""`medagent export FORM`: writes a run, or a benchmark's tasks (harbor), in another tool's format."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from medagent.cli._benchmarks import per_benchmark
from medagent.engine.settings import WHICH
from medagent.terminal.groups import group
from medagent.terminal.options import BenchmarkCode, SendPatientData, WithPatientData
from medagent.terminal.settings import fields_of

app = group(
    "Write a run, or a benchmark's tasks (harbor), in another tool's format.\n\n"
    "Example: medagent export official results/v2_r2_reference official/"
)
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]


@app.command("official")
def official(
    run: Run,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; it is made if needed.")],
    with_patient_data: WithPatientData = False,
) -> None:
    """A run in its benchmark's official format.

    For MedAgentBench these are the official runner's files runs.jsonl, error.jsonl and overall.json. Several trials are
    in one folder each.

    Example: medagent export official results/v2_r2_reference official/
    """
    from medagent.engine.patient_data import check_exported
    from medagent.export.official import export_official
    from medagent.reports.tables import put

    check_exported(run, with_patient_data=with_patient_data)

    for path in export_official(run, out):
        put(path)


File = Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")]


@app.command("parquet")
def parquet(run: Run, out: File, benchmark: BenchmarkCode = None, with_patient_data: WithPatientData = False) -> None:
    """One row per item, for training and analysis: messages (role and content), verdict, checks, kind, usage.

    Needs pyarrow (pip install 'medagent[parquet]').

    Example: medagent export parquet results/v2_r2_gpt-4o-mini rows.parquet
    """
    from medagent.export.rows import export_parquet
    from medagent.reports.tables import put

    put(f"{out}: {export_parquet(run, out, benchmark, with_patient_data=with_patient_data)} rows")


@app.command("jsonl")
def jsonl(run: Run, out: File, benchmark: BenchmarkCode = None, with_patient_data: WithPatientData = False) -> None:
    """The rows of `parquet`, as JSON lines.

    Example: medagent export jsonl results/v2_r2_gpt-4o-mini rows.jsonl
    """
    from medagent.export.rows import export_jsonl
    from medagent.reports.tables import put

    put(f"{out}: {export_jsonl(run, out, benchmark, with_patient_data=with_patient_data)} rows")


@app.command("csv")
def csv(run: Run, out: File, benchmark: BenchmarkCode = None) -> None:
    """The scores, one line per group, with data set, language, model and judges.

    Example: medagent export csv results/v2_r2_gpt-4o-mini groups.csv
    """
    from medagent.export.groups import export_csv
    from medagent.reports.tables import put

    put(f"{out}: {export_csv(run, out, benchmark)} lines")


@app.command("atif")
def atif(
    run: Run,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; it is made if needed.")],
    benchmark: BenchmarkCode = None,
    with_patient_data: WithPatientData = False,
) -> None:
    """Trajectories in the Agent Trajectory Interchange Format (ATIF-v1.8), one file per episode.

    Example: medagent export atif results/v2_r2_gpt-4o-mini trajectories/
    """
    from medagent.engine.patient_data import check_exported
    from medagent.export.atif import export_atif
    from medagent.reports.tables import put

    check_exported(run, with_patient_data=with_patient_data)

    put(f"{out}: {export_atif(run, out, benchmark)} trajectories")


@app.command("inspect")
def inspect(
    run: Run,
    out: Annotated[Path, typer.Argument(metavar="OUT.eval", help="The log to write: .eval or .json.")],
    benchmark: BenchmarkCode = None,
    with_patient_data: WithPatientData = False,
) -> None:
    """An Inspect AI log: samples with epochs, messages, tool calls and scores, for inspect view and inspect score.

    Needs inspect-ai (pip install 'medagent[inspect]').

    Example: medagent export inspect results/v2_r2_gpt-4o-mini logs/run.eval
    """
    from medagent.engine.patient_data import check_exported
    from medagent.export.inspect import export_inspect
    from medagent.reports.tables import put

    check_exported(run, with_patient_data=with_patient_data)

    put(f"{out}: {export_inspect(run, out, benchmark)} samples")


@app.command("every-eval-ever")
def every_eval_ever(
    run: Run,
    out: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; it is made if needed.")],
    benchmark: BenchmarkCode = None,
    with_patient_data: WithPatientData = False,
) -> None:
    """The shared format of Every Eval Ever: one record of the evaluation, and one line for each item and trial.

    Example: medagent export every-eval-ever results/v2_r2_gpt-4o-mini shared/
    """
    from medagent.engine.patient_data import check_exported
    from medagent.export.every_eval_ever import export_every_eval_ever
    from medagent.reports.tables import put

    check_exported(run, with_patient_data=with_patient_data)

    for path in export_every_eval_ever(run, out, benchmark):
        put(path)


@app.command("otel")
def otel(
    run: Run,
    out: Annotated[str, typer.Argument(metavar="URL|FILE", help="An OTLP/HTTP endpoint, or a file.")],
    benchmark: BenchmarkCode = None,
    with_patient_data: WithPatientData = False,
    send_patient_data: SendPatientData = None,
) -> None:
    """OpenTelemetry spans: invoke_agent per item, chat per model call, execute_tool per tool call.

    The format is protobuf after pip install 'medagent[otel]', otherwise JSON. Set headers in
    OTEL_EXPORTER_OTLP_HEADERS.

    Example: medagent export otel results/v2_r2_gpt-4o-mini http://localhost:4318
    """
    from medagent.engine.patient_data import check_exported
    from medagent.export.otel import export_otel
    from medagent.reports.tables import put

    check_exported(run, with_patient_data=with_patient_data, address=out, allowed=send_patient_data or ())

    put(f"{export_otel(run, out, benchmark)} spans")


@app.command("mlflow")
def mlflow(
    run: Run,
    out: Annotated[str, typer.Argument(metavar="URI", help="A tracking server, or sqlite:///FILE.db.")],
    experiment: Annotated[str, typer.Option(help="The experiment's name.")] = "medagent",
    benchmark: BenchmarkCode = None,
    with_patient_data: WithPatientData = False,
    send_patient_data: SendPatientData = None,
) -> None:
    """An MLflow run: settings are parameters, scores are metrics, files are artifacts.

    Needs mlflow (pip install 'medagent[mlflow]').

    Example: medagent export mlflow results/v2_r2_gpt-4o-mini http://localhost:5000
    """
    from medagent.engine.patient_data import check_exported
    from medagent.export.mlflow import export_mlflow
    from medagent.reports.tables import put

    check_exported(run, with_patient_data=with_patient_data, address=out, allowed=send_patient_data or ())

    put(export_mlflow(run, out, experiment, benchmark))


def harbor(
    benchmark: Any,
    values: dict[str, Any],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    writes: Annotated[
        Literal["execute"] | None,
        typer.Option(help="execute: the record carries out all writes of FHIR, not only creates."),
    ] = None,
) -> None:
    """A benchmark's tasks as folders that Harbor runs.

    Any agent in a container can act in them. The record is served over HTTP, and the reward is 1.0 or 0.0. Tasks that
    demand changes of the chart need --writes execute.

    Example: medagent export harbor tasks/ --version v2 --per-type 3

    Example: medagent export harbor tasks/ --dataset fresh
    """
    from medagent.core.number_formats import counted
    from medagent.integrations.harbor.tasks import export_harbor
    from medagent.reports.tables import put, say

    options = values if writes is None else {**values, "writes": writes}
    done = export_harbor(benchmark, folder, options, say)
    if not done.reference:
        put(f"without solution/, because {benchmark.name} does not have a reference agent")
    elif done.unsolved:
        put(f"without solution/, because the reference agent fails: {', '.join(done.unsolved)}")
    agent = "oracle" if done.reference else "AGENT"
    command = shlex.join(["harbor", "run", "-p", str(folder), "-a", agent])
    put(f"{folder}: {counted(done.tasks, 'tasks')}. Run them: {command}")


def _which(benchmark: Any) -> list[Any]:
    """The options that select tasks."""
    return [field for field in fields_of(benchmark.Settings) if field.option.group == WHICH and field.name != "trials"]


app.add_typer(
    per_benchmark(
        "medagent export harbor",
        harbor,
        "A benchmark's tasks as folders that Harbor runs.",
        _which,
        fhir=True,
        argument=True,
    ),
    name="harbor",
)
