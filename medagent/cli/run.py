"""`medagent run`: MedAgentBench by itself, and the other benchmarks as subcommands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import options, server_options
from medagent.cli.run_imapscore import run_imapscore
from medagent.cli.run_promptcblue import run_promptcblue
from medagent.cli.run_simpleqa import run_simpleqa

app = typer.Typer()
app.command("promptcblue")(run_promptcblue)
app.command("simpleqa")(run_simpleqa)
app.command("imapscore")(run_imapscore)


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    version: Annotated[str, typer.Option(help="v1 (100 tasks) or v2 (300 tasks).")] = "v2",
    round_: options.Round = "r1",
    agent: Annotated[
        str | None,
        typer.Option(help="text (a model; the default with --model), reference, nop, constant, or replay FILE."),
    ] = None,
    model: options.ModelName = None,
    base_url: options.BaseUrls = None,
    api: options.Api = "chat",
    protocol: Annotated[str, typer.Option(help="With --model: text (as published) or tools (tool calling).")] = "text",
    temperature: options.Temperature = 0.0,
    max_tokens: options.MaxTokens = None,
    timeout: options.Timeout = 300.0,
    extra: options.Extra = None,
    replay: Annotated[Path | None, typer.Option(hidden=True)] = None,
    tasks: Annotated[str | None, typer.Option(help="Only these types, e.g. task1,task5.")] = None,
    ids: Annotated[str | None, typer.Option(help="Only these tasks, e.g. task1_1,task5_7.")] = None,
    limit: options.Limit = None,
    trials: Annotated[int, typer.Option(min=1, help="Episodes a task; one results file each.")] = 1,
    dataset: Annotated[str, typer.Option(help="synthetic, or official once it is imported.")] = "synthetic",
    tasks_file: Annotated[Path | None, typer.Option(help="Your own task file instead of a data set.")] = None,
    ehr: Annotated[
        Path | None, typer.Option(help="FHIR data for the embedded server: NDJSON, or a file of medagent ehr import.")
    ] = None,
    fhir: Annotated[str | None, typer.Option(help="A FHIR server's base URL instead of the embedded one.")] = None,
    fhir_header: server_options.FhirHeader = None,
    ca_file: server_options.CaFile = None,
    writes: Annotated[str, typer.Option(help="What happens to a POST: ack (as published) or execute.")] = "ack",
    api_base: Annotated[
        str, typer.Option(help="The FHIR base that the agent is shown.")
    ] = "http://localhost:8080/fhir/",
    max_rounds: Annotated[int, typer.Option(min=1, help="Messages an agent has.")] = 8,
    strip_thinking: Annotated[bool, typer.Option(help="Cut a leading <think> block before a message is read.")] = False,
    concurrency: options.Concurrency = 16,
    max_cost: options.MaxCost = None,
    max_tokens_total: options.MaxTokensTotal = None,
    cluster: Annotated[str | None, typer.Option(help="A Dask scheduler to run on, e.g. tcp://head:8786.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes of a local cluster.")] = None,
    results_dir: options.ResultsDir = Path("results"),
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Run MedAgentBench (without a subcommand), or another benchmark (with one).

    Every finished episode is on disk at once; the same command again continues where the last one stopped.

    Example: medagent run --version v2 --round r2 --model gpt-4o-mini
    """
    if context.invoked_subcommand is not None:
        return
    from medagent.medagentbench.config import RunConfig
    from medagent.medagentbench.run import run_medagentbench

    config = options.checked(
        RunConfig,
        version=version,
        round=round_,
        agent=agent,
        protocol=protocol,
        model=options.model_settings(
            model, base_url, api=api, temperature=temperature, max_tokens=max_tokens, timeout=timeout, extra=extra
        ),
        replay=replay,
        types=_listed("--tasks", tasks),
        ids=_listed("--ids", ids),
        limit=limit,
        trials=trials,
        dataset=dataset,
        tasks_file=tasks_file,
        ehr=ehr,
        fhir=fhir,
        fhir_headers=server_options.headers(fhir_header),
        ca_file=ca_file,
        writes=writes,
        api_base=api_base,
        max_rounds=max_rounds,
        strip_thinking=strip_thinking,
        concurrency=concurrency,
        max_cost=max_cost,
        max_tokens_total=max_tokens_total,
        cluster=cluster,
        workers=workers,
        results_dir=results_dir,
        overwrite=overwrite,
    )
    raise typer.Exit(run_medagentbench(config, quiet=quiet, as_json=as_json))


def _listed(option: str, text: str | None) -> list[str]:
    from medagent.errors import UserError

    if text is None:
        return []
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UserError(f"{option} is empty: it selects nothing; leave it out for all")
    return parts
