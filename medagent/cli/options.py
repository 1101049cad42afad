"""Options that several commands share, so that each is worded once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from medagent.models.settings import ModelSettings

# typer reads these at run time; Optional is what it understands on every Python.
ModelName = Annotated[
    str | None, typer.Option("--model", help="The model's name as its endpoint knows it, e.g. gpt-4o-mini.")
]
BaseUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url",
        help="An OpenAI-compatible endpoint (default: OPENAI_BASE_URL); repeated: replicas, an episode stays with one.",
    ),
]
Api = Annotated[str, typer.Option("--api", help="chat (chat completions), responses, or anthropic (Messages).")]
Temperature = Annotated[float, typer.Option("--temperature", help="Sampling temperature; below 0: the model's own.")]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", min=1, help="The longest reply, in tokens (default: the endpoint's own).")
]
Timeout = Annotated[float, typer.Option("--timeout", min=1, help="Seconds one model call may take.")]
Extra = Annotated[
    list[str] | None,
    typer.Option(help="A further field of the model's requests, e.g. reasoning_effort=low or top_p=0.9; repeatable."),
]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, help="How many run at once.")]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", help="US dollars after which nothing new starts; the run can go on later."),
]
MaxTokensTotal = Annotated[
    int | None, typer.Option("--max-tokens-total", min=1, help="Tokens after which nothing new starts.")
]
Round = Annotated[str, typer.Option("--round", help="A label for the run, part of its folder's name.")]
ResultsDir = Annotated[Path, typer.Option("--results-dir", help="Where runs land.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Start anew in a folder that holds a run.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many.")]


def model_settings(
    name: str | None,
    base_urls: list[str] | None,
    *,
    api: str = "chat",
    temperature: float = 0.0,
    max_tokens: int | None = None,
    timeout: float = 300.0,
    extra: list[str] | None = None,
) -> ModelSettings | None:
    """The settings of the named model, None where no model is named. Raises UserError for a value that is off."""
    if name is None:
        return None
    from medagent.models.settings import ModelSettings

    return checked(
        ModelSettings,
        name=name,
        base_urls=base_urls or [],
        api=api,
        temperature=None if temperature < 0 else temperature,
        max_tokens=max_tokens,
        timeout_s=timeout,
        extra=_fields(extra or []),
    )


M = TypeVar("M")


def checked(model: type[M], /, **values: object) -> M:
    """A pydantic model of command line values. Raises UserError naming the option that is off."""
    from pydantic import ValidationError

    from medagent.errors import UserError

    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = "--" + ".".join(str(part) for part in first["loc"]).replace("_", "-")
        raise UserError(f"{option}: {first['msg']} (given: {first['input']!r})") from None


def _fields(texts: list[str]) -> dict[str, object]:
    """`name=value` texts as fields: the value as JSON where it is JSON, else as text. Raises UserError."""
    import json

    from medagent.errors import UserError

    fields: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--extra {text!r}: write it as name=value")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    return fields
