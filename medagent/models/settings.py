"""The settings of a chat endpoint. They never include an API key: they name the environment variable that contains it,
so that no file of a run can contain the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from medagent.core.errors import UserError
from medagent.core.wire import without_password

Api = Literal["chat", "responses", "anthropic"]
"""Each is a module of `medagent.models.dialects`. A new one is added there and here."""


class ModelSettings(BaseModel):
    """The model that answers, and its request settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str = Field(min_length=1)
    """The model's name at its endpoint; `scripted:FILE` replays the replies in a JSON file."""

    base_urls: list[str] = []
    """Replicas of one endpoint; an episode stays with one. Empty: `OPENAI_BASE_URL` or `ANTHROPIC_BASE_URL`, else the
    provider's own."""

    allow_hosts: list[str] = []
    """Other hosts that an A2A agent may use. Without them, it is called only at the host of its base URL."""

    api: Api = "chat"
    """Chat completions, which every OpenAI-compatible server offers, the responses API, or Anthropic's Messages API."""

    api_key_env: dict[str, str] = {}
    """The environment variable of each endpoint's key, by origin (`https://host:port`), `host:port` or `host`; "" is
    the first base URL. Also accepts a list of `NAME` and `HOST=NAME`. An empty variable name: no key."""

    temperature: float | None = 0.0
    """Sampling temperature; None: the endpoint's default. Not sent to a model that rejects it."""

    max_tokens: int | None = Field(default=None, gt=0)
    """The maximum reply in tokens, including reasoning; None: the endpoint's default (Anthropic's API requires a limit:
    16,384)."""

    max_reply_bytes: int = Field(default=16_000_000, gt=0)
    """The maximum size of a reply in bytes after decompression; a longer reply fails its call."""

    timeout_s: float = Field(default=300.0, gt=0)
    """Maximum seconds of one attempt, from first to last byte."""

    max_retries: int = Field(default=8, ge=0)
    """Maximum number of attempts after a failed first one."""

    retry_time_s: float = Field(default=900.0, ge=0)
    """Maximum seconds for all attempts of one call and the waits between them."""

    outage_time_s: float = Field(default=120.0, ge=0)
    """Stop the run after this many seconds of failed attempts without a success, …"""

    outage_attempts: int = Field(default=20, gt=0)
    """… if at least this many attempts have failed. A 429 with `Retry-After` does not count."""

    cache: Path | None = Field(default=None, exclude=True)
    """A folder of replies that runs share: an identical request is not sent again. It is not part of the model's
    identity."""

    start: int | None = Field(default=None, exclude=True)
    """Requests at once at the start; None: the endpoint's number of slots, else 4. It is not part of the model's
    identity."""

    extra: dict[str, Any] = {}
    """Other fields of the request body, sent unchanged (`reasoning_effort`, `top_p`, …)."""

    @field_validator("base_urls")
    @classmethod
    def _are_web_addresses(cls, urls: list[str]) -> list[str]:
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise UserError(f"base URL {without_password(url)!r}: it must start with http:// or https://")
        return [url.rstrip("/") for url in urls]

    @field_validator("api_key_env", mode="before")
    @classmethod
    def _as_table(cls, value: Any) -> Any:
        return key_table(value) if isinstance(value, list | tuple) else value


def key_table(options: Sequence[str]) -> dict[str, str]:
    """`NAME` and `HOST=NAME` texts as `ModelSettings.api_key_env`. Raises UserError."""
    table: dict[str, str] = {}
    for text in map(str, options):
        place, _, name = text.rpartition("=")
        if not name.isidentifier():
            # The text is not repeated: it may be a key instead of a variable's name.
            raise UserError("--api-key-env takes the NAME of an environment variable, or HOST=NAME, not the key")
        table[place] = name
    return table
