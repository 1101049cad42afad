"""How the tests of this folder ask a model: settings and a conversation in, completions out, connections closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from medagent.models.base import Completion, Message
from medagent.models.endpoint import ChatEndpoint
from medagent.models.prices import find_price
from medagent.models.settings import ModelSettings

QUESTION = (Message("user", "How old is S1?"),)


def settings(*urls: str, **values: Any) -> ModelSettings:
    """Settings for these base URLs."""
    return ModelSettings(name=values.pop("name", "any-model"), base_urls=list(urls), **values)


def with_model(
    chosen: ModelSettings, use: Callable[[ChatEndpoint], Any], *, concurrency: int = 8, start: int | None = None
) -> tuple[Any, ChatEndpoint]:
    """What the coroutine `use(model)` returns, and the model, closed."""

    async def run() -> tuple[Any, ChatEndpoint]:
        model = ChatEndpoint(chosen, concurrency=concurrency, start=start, price=find_price(chosen.name))
        try:
            return await use(model), model
        finally:
            await model.aclose()

    return asyncio.run(run())


def ask(chosen: ModelSettings, messages: Sequence[Message] = QUESTION, **options: Any) -> Completion:
    """One completion."""
    completion, _ = with_model(chosen, lambda model: model.complete(messages, **options))
    assert isinstance(completion, Completion)
    return completion
