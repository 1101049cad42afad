"""OpenAI's embeddings API: texts in, one vector per text out. The texts are the request's messages, and the vectors are
the completion's. So the same retries, keys and limits apply to an embedding endpoint as to any other.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from medagent.models.base import Completion
from medagent.models.dialects.base import OPENAI, ApiRequest, Dialect, Unsupported, parsed
from medagent.models.settings import ModelSettings


class _Vector(BaseModel):
    index: int
    embedding: list[float] = Field(min_length=1)


class _Reply(BaseModel):
    data: list[_Vector] = Field(min_length=1)


def _body(request: ApiRequest, settings: ModelSettings, unsupported: Unsupported) -> dict[str, Any]:
    return {"model": settings.name, "input": [message.content for message in request.messages]} | settings.extra


def _read(reply: dict[str, Any]) -> Completion:
    vectors = sorted(parsed(_Reply, reply, "data").data, key=lambda vector: vector.index)
    return Completion("", vectors=tuple(tuple(vector.embedding) for vector in vectors))


DIALECT = Dialect(vendor=OPENAI, path=lambda base: f"{base}/embeddings", body=_body, read=_read)
