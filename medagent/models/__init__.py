"""Chat models: `open_model` makes one from settings. Importing this package loads no HTTP library."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medagent.models.base import ChatModel
    from medagent.models.prices import Price
    from medagent.models.settings import ModelSettings


def open_model(settings: ModelSettings, *, concurrency: int = 16, price: Price | None = None) -> ChatModel:
    """The model in `settings`, with at most `concurrency` requests in flight. `price` applies to its calls; None if
    unknown.

    Raises UserError if the endpoint's key, URL or script is missing or invalid.
    """
    if settings.name.startswith("scripted:"):
        from pathlib import Path

        from medagent.models.scripted import ScriptedModel

        return ScriptedModel.from_file(Path(settings.name.removeprefix("scripted:")))
    from medagent.models.endpoint import ChatEndpoint
    from medagent.models.limiter import START

    start = START if settings.start is None else settings.start
    return ChatEndpoint(settings, concurrency=concurrency, start=start, price=price, asks_server=True)
