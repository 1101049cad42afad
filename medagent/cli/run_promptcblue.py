"""`medagent run promptcblue`: a model over a PromptCBLUE test file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import options


def run_promptcblue(
    data: Annotated[Path, typer.Option(help="The test file: JSON lines with the prompts in `input`.")],
    model: options.ModelName = None,
    gold: Annotated[Path | None, typer.Option(help="Structured right answers: parse and score at the end.")] = None,
    round_: options.Round = "r1",
    base_url: options.BaseUrls = None,
    api: options.Api = "chat",
    temperature: options.Temperature = 0.0,
    max_tokens: options.MaxTokens = None,
    timeout: options.Timeout = 300.0,
    extra: options.Extra = None,
    strip_thinking: Annotated[bool, typer.Option(help="Cut a leading <think> block from an answer.")] = False,
    concurrency: options.Concurrency = 16,
    max_cost: options.MaxCost = None,
    max_tokens_total: options.MaxTokensTotal = None,
    results_dir: options.ResultsDir = Path("results"),
    overwrite: options.Overwrite = False,
    quiet: options.Quiet = False,
) -> None:
    """Fill `target` of every line of a PromptCBLUE test file; with --gold, parse and score.

    Every answer is on disk at once; the same command again continues where the last one stopped. While a line has no
    answer, the exit code is 2 and nothing is scored.

    Example: medagent run promptcblue --data test.json --model gpt-4o-mini --round r1
    """
    from medagent.errors import UserError
    from medagent.promptcblue.config import PromptcblueConfig
    from medagent.promptcblue.run import run_promptcblue as run

    settings = options.model_settings(
        model, base_url, api=api, temperature=temperature, max_tokens=max_tokens, timeout=timeout, extra=extra
    )
    if settings is None:
        raise UserError("no model is given: pass --model NAME, and --base-url URL where it is not OpenAI's")
    config = options.checked(
        PromptcblueConfig,
        data=data,
        gold=gold,
        model=settings,
        round=round_,
        strip_thinking=strip_thinking,
        concurrency=concurrency,
        max_cost=max_cost,
        max_tokens_total=max_tokens_total,
        results_dir=results_dir,
        overwrite=overwrite,
    )
    raise typer.Exit(run(config, quiet=quiet))
