"""`medagent run simpleqa`: short factual questions to a model, its answers to a judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import options
from medagent.cli.simpleqa import JudgePromptFile, Judges, JudgeUrls, VariantName, judge_settings


def run_simpleqa(
    judge: Judges,
    model: options.ModelName = None,
    data: Annotated[
        Path | None, typer.Option(help="The questions (default: the 40 Hungarian ones that come with medagent).")
    ] = None,
    variant: Annotated[VariantName, typer.Option(help="The format of --data.")] = "husimpleqa",
    lang: Annotated[
        str, typer.Option(help="Languages of the instruction, e.g. en,hu (default: all of the prompt).")
    ] = "",
    round_: options.Round = "r1",
    base_url: options.BaseUrls = None,
    judge_base_url: JudgeUrls = None,
    api: options.Api = "chat",
    temperature: options.Temperature = 0.0,
    max_tokens: options.MaxTokens = None,
    timeout: options.Timeout = 300.0,
    extra: options.Extra = None,
    model_prompt: Annotated[Path | None, typer.Option(help="Your own prompt (TOML).")] = None,
    judge_prompt: JudgePromptFile = None,
    limit: options.Limit = None,
    concurrency: options.Concurrency = 16,
    max_cost: options.MaxCost = None,
    max_tokens_total: options.MaxTokensTotal = None,
    results_dir: options.ResultsDir = Path("results"),
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Ask a model short factual questions, have a judge decide, and print the figures.

    Every answer and every verdict is on disk at once; the same command again continues where the last one stopped.

    Example: medagent run simpleqa --lang en,hu --model gpt-4o-mini --judge gpt-4o --round r1
    """
    from medagent.errors import UserError
    from medagent.simpleqa.config import Effort, SimpleqaConfig
    from medagent.simpleqa.load import BUNDLED
    from medagent.simpleqa.run import run_simpleqa as run

    settings = options.model_settings(
        model, base_url, api=api, temperature=temperature, max_tokens=max_tokens, timeout=timeout, extra=extra
    )
    if settings is None:
        raise UserError("no model is given: pass --model NAME, and --base-url URL where it is not OpenAI's")
    if data is None and variant != "husimpleqa":
        raise UserError(f"--variant {variant}: needs the questions: --data FILE")
    config = options.checked(
        SimpleqaConfig,
        data=data or BUNDLED,
        variant=variant,
        languages=[part.strip() for part in lang.split(",") if part.strip()],
        model=settings,
        judges=judge_settings(judge, judge_base_url or base_url, timeout),
        model_prompt=model_prompt,
        judge_prompt=judge_prompt,
        round=round_,
        limit=limit,
        results_dir=results_dir,
        overwrite=overwrite,
    )
    effort = options.checked(
        Effort,
        concurrency=concurrency,
        max_cost=max_cost,
        max_tokens_total=max_tokens_total,
        quiet=quiet,
        as_json=json,
    )
    raise typer.Exit(run(config, effort))
