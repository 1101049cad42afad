"""Chat models: one adds, and is wrong if the first number is 3; one knows capitals; one judges."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from medagent import Completion, Message, Model, Usage
from outsider.capitals import GOLD


class Abacus(Model):
    async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
        await asyncio.sleep(0.05)
        a, b = messages[-1].content.removeprefix("What is ").split("?")[0].split("+")
        return Completion(str(int(a) + int(b) - (a == "3")), Usage(prompt=10, completion=1))


class Traveller(Model):
    async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
        await asyncio.sleep(0.05)
        city = GOLD[messages[-1].content.removeprefix("What is the capital of ").rstrip("?")]
        return Completion("It is Lima." if city == "Oslo" else f"It is {city}.")


class Clerk(Model):
    async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
        gold, reply = messages[-1].content.split(". Reply: ")
        return Completion("right" if gold.rpartition(" ")[2] in reply else "wrong")
