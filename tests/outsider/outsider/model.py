"""A chat model that needs a moment, and is wrong where the first number is 3."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from medagent import Completion, Message, Model, Usage


class Abacus(Model):
    async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
        await asyncio.sleep(0.05)
        a, b = messages[-1].content.removeprefix("What is ").split("?")[0].split("+")
        return Completion(str(int(a) + int(b) - (a == "3")), Usage(prompt=10, completion=1))
