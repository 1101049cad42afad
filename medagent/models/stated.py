"""What a server says of itself before the first request: its window, its slots, the name of its model.

llama.cpp answers `/props` (window and slots) and `/v1/models`; vLLM states `max_model_len` in `/v1/models`. Other
servers say less, or nothing: whatever is missing, or cannot be read, is unknown.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from medagent.models.client import Replica
from refsol.json_values import as_object, json_value, objects

ASK_S = 5.0
"""Seconds to wait for each answer."""
_VERSION = "/v1"


@dataclass(frozen=True, slots=True)
class Stated:
    """What a server states. `window` are the tokens of a conversation with its reply, `slots` the requests at once."""

    window: int | None = None
    slots: int | None = None
    model: str = ""

    @property
    def document(self) -> dict[str, Any]:
        """The known values, for `run.json`."""
        values = {"window": self.window, "slots": self.slots, "model": self.model}
        return {name: value for name, value in values.items() if value}


async def stated_by(replica: Replica, model: str) -> Stated:
    """What the server of a replica states of itself and of a model."""
    base = replica.shown.rstrip("/")
    root = base.removesuffix(_VERSION)
    props, models = await asyncio.gather(_answer(replica, f"{root}/props"), _answer(replica, f"{base}/models"))
    listed = objects(models.get("data"))
    served = next((entry for entry in listed if entry.get("id") == model), listed[0] if len(listed) == 1 else {})
    settings, meta = as_object(props.get("default_generation_settings")), as_object(served.get("meta"))
    windows = (settings.get("n_ctx"), props.get("n_ctx"), served.get("max_model_len"), meta.get("n_ctx"))
    return Stated(
        window=next(filter(None, map(_count, windows)), None),
        slots=_count(props.get("total_slots")),
        model=str(served.get("id") or ""),
    )


async def _answer(replica: Replica, url: str) -> dict[str, Any]:
    """The JSON object at a URL; empty if there is none."""
    try:
        async with asyncio.timeout(ASK_S):
            response = await replica.http.get(url)
    except Exception:  # whatever is wrong, the first request of the run says it
        return {}
    return as_object(json_value(response.content)) if response.is_success else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
