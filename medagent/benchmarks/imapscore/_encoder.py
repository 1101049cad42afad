"""The linker's encoder step: of the names that are similar enough, it chooses the one with the closest embedding.

The embeddings come from an OpenAI-compatible endpoint, or from a class given by import path. Its method
`embed(texts)`, plain or async, returns a vector for each text.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from medagent.core import plugins
from medagent.core.errors import ModelError
from medagent.core.plugins import Plugin
from medagent.engine.boundary import blame
from medagent.models.base import ChatModel, Message
from medagent.models.keys import located
from medagent.models.settings import ModelSettings
from refsol.imapscore.graph import Linker

MODELS = "medagent.models"
Vector = Sequence[float]


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """The source of embeddings, as a description that can be pickled."""

    settings: ModelSettings
    plugin: Plugin | None = None

    @classmethod
    def of(cls, settings: ModelSettings) -> EncoderChoice:
        """The encoder that the settings name, with the endpoint from this process's environment. Raises UserError for
        an invalid import path.
        """
        plugin = plugins.find(settings.name, MODELS)
        return cls(settings if plugin is not None else located(settings, os.environ), plugin)

    @asynccontextmanager
    async def open(self, concurrency: int) -> AsyncIterator[Encoder]:
        """The encoder, ready for use. Raises UserError if it cannot be used."""
        if self.plugin is not None:
            yield Encoder(self.plugin.load()(self.settings))
            return
        from medagent.models.dialects.embeddings import DIALECT
        from medagent.models.endpoint import ChatEndpoint

        endpoint = ChatEndpoint(self.settings, concurrency=concurrency, dialect=DIALECT)
        try:
            yield Encoder(_Endpoint(endpoint))
        finally:
            await endpoint.aclose()


class _Endpoint:
    def __init__(self, endpoint: ChatModel) -> None:
        self._endpoint = endpoint

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        return (await self._endpoint.complete([Message("user", text) for text in texts])).vectors


class Encoder:
    """Decides which entity a value names."""

    def __init__(self, model: Any) -> None:
        self._model = model

    async def settle(self, linker: Linker, values: Iterable[str]) -> None:
        """Link the values that no name spells exactly. Raises ModelError if vectors are missing."""
        for value in dict.fromkeys(values):
            if names := linker.open_candidates(value):
                vectors = await self._embed([value, *names])
                linker.settle(
                    value,
                    max(
                        zip(names, vectors[1:], strict=True),
                        key=lambda named_vector: _cosine(vectors[0], named_vector[1]),
                    )[0],
                )

    async def _embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        with blame("model"):
            embedded = self._model.embed(texts)
            vectors: Sequence[Vector] = await embedded if inspect.isawaitable(embedded) else embedded
        if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) != 1:
            raise ModelError(
                f"the encoder returned {len(vectors)} vectors for {len(texts)} texts, or of different lengths"
            )
        return vectors


def _cosine(first: Vector, second: Vector) -> float:
    norms = math.hypot(*first) * math.hypot(*second)
    return math.fsum(a * b for a, b in zip(first, second, strict=True)) / norms if norms else 0.0
