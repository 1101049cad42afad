"""A run as an MLflow run: settings are parameters, figures are metrics, the folder's files are artifacts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from medagent._api import load_run
from medagent._finished import Code
from medagent.core.errors import UserError
from medagent.core.scrub import error_text
from medagent.core.writing import inside
from medagent.engine.report import Report
from medagent.engine.scores import GROUNDED

_UNFIT = re.compile(r"[^\w\-./ ]")
_FILES = ("run.json", "report.json", "results.json", "grade.json", "episodes.jsonl")


def export_mlflow(folder: Path, out: str, experiment: str = "medagent", code: Code | None = None) -> str:
    """Log a run to a tracking address (`http://localhost:5000`, `sqlite:///mlflow.db`). Returns MLflow's run id.

    Raises UserError if mlflow is not installed or the address does not accept the run.
    """
    try:
        import mlflow
        from mlflow.exceptions import MlflowException
    except ImportError:
        raise UserError("export mlflow needs mlflow: pip install 'medagent[mlflow]'") from None
    if "://" not in out and out != "databricks":
        raise UserError(f"{out}: MLflow 3 does not accept folders; pass sqlite:///FILE.db or the address of a server")
    report = load_run(folder, benchmark=code).report
    try:
        client = mlflow.MlflowClient(tracking_uri=out)
        known = client.get_experiment_by_name(experiment)
        place = known.experiment_id if known else client.create_experiment(experiment)
        started = client.create_run(place, run_name=folder.resolve().name)
        run_id = str(started.info.run_id)
        for name, text in parameters(report):
            client.log_param(run_id, name, text)
        for name, value in metrics(report):
            client.log_metric(run_id, name, value)
        for file in _FILES:
            if inside(folder / file).is_file():
                client.log_artifact(run_id, str(folder / file))
        client.set_terminated(run_id)
    except (MlflowException, OSError) as error:
        raise UserError(f"{out}: {error_text(str(error))}") from None
    return run_id


def parameters(report: Report) -> Iterator[tuple[str, str]]:
    """The settings that decide the rows, and the data set."""
    yield "benchmark", report.benchmark
    for name, value in report.data.model_dump().items():
        yield f"data.{name}", str(value)
    for name, value in report.settings.items():
        if value is not None:
            yield _UNFIT.sub("_", name), str(value)[:500]


def metrics(report: Report) -> Iterator[tuple[str, float]]:
    """The overall figure with its interval, the figure of each group, tokens and cost."""
    overall = report.overall
    if overall is not None and overall.value is not None:
        yield report.figure.replace(" ", "_"), overall.value
        yield from zip(("low", "high"), overall.interval or (), strict=False)
        yield "n", float(overall.n)
        if overall.grounded is not None and overall.grounded.value is not None:
            yield GROUNDED, overall.grounded.value
    if injected := report.details.get("injected"):
        yield "harmed", injected["harmed"] / injected["items"]
    for line in report.table[0].lines if report.table else ():
        if line.value is not None:
            yield f"group/{_UNFIT.sub('_', line.name)}", line.value
    if report.spent.calls:
        yield "tokens", float(report.spent.usage.total)
        if report.spent.cost is not None:
            yield "cost_usd", report.spent.cost
