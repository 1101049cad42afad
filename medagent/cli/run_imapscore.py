"""`medagent run imapscore`: a model extracts the imaps of a file of items."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import options


def run_imapscore(
    data: Annotated[Path, typer.Option(help="The items: JSON lines in the released form.")],
    model: options.ModelName = None,
    min_votes: Annotated[int, typer.Option(min=2, max=3, help="How many of the three samples must agree.")] = 2,
    graph: Annotated[
        Path | None, typer.Option(help="Relate values by this graph before the model is asked.", show_default=False)
    ] = None,
    g_eval: Annotated[bool, typer.Option("--g-eval", help="Also have the model rate each response (6 calls).")] = False,
    round_: options.Round = "r1",
    base_url: options.BaseUrls = None,
    api: options.Api = "chat",
    temperature: options.Temperature = 0.9,
    max_tokens: options.MaxTokens = None,
    timeout: options.Timeout = 300.0,
    extra: options.Extra = None,
    concurrency: options.Concurrency = 16,
    max_cost: options.MaxCost = None,
    max_tokens_total: options.MaxTokensTotal = None,
    results_dir: options.ResultsDir = Path("results"),
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
) -> None:
    """Extract the imaps and relations of every item by a model, from three samples each.

    Every reply is kept, so nothing is asked twice; the same command again continues where the last one stopped.

    Example: medagent run imapscore --data items.jsonl --model gpt-4o-mini --round r1
    """
    from medagent.errors import UserError
    from medagent.imapscore.config import ImapscoreConfig
    from medagent.imapscore.run import run_imapscore as run

    settings = options.model_settings(
        model, base_url, api=api, temperature=temperature, max_tokens=max_tokens, timeout=timeout, extra=extra
    )
    if settings is None:
        raise UserError("no model is given: pass --model NAME, and --base-url URL where it is not OpenAI's")
    config = options.checked(
        ImapscoreConfig,
        data=data,
        model=settings,
        round=round_,
        min_votes=min_votes,
        graph=graph,
        g_eval=g_eval,
        concurrency=concurrency,
        max_cost=max_cost,
        max_tokens_total=max_tokens_total,
        results_dir=results_dir,
        overwrite=overwrite,
    )
    raise typer.Exit(run(config, quiet=quiet))
