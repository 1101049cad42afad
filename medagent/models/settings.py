"""The settings of a chat endpoint, as a person gives them. The API key is never one of them: it stays in the
environment (`OPENAI_API_KEY`), so that no file of a run can hold it.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from medagent.errors import UserError


class ModelSettings(BaseModel):
    """Which model answers, and how it is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str = Field(min_length=1)
    """The model's name as the endpoint knows it; `scripted:FILE` replays the replies of a JSON file."""

    base_urls: list[str] = []
    """Replicas of one endpoint; an episode stays with one. Empty: `OPENAI_BASE_URL`, else OpenAI's own."""

    api: Literal["chat", "responses"] = "chat"
    """Chat completions, which every OpenAI-compatible server has, or the responses API."""

    temperature: float | None = 0.0
    """Sampling temperature; None leaves it to the endpoint. Dropped for a model that refuses it."""

    max_tokens: int | None = Field(default=2048, gt=0)
    """The longest reply in tokens, reasoning included; None leaves it to the endpoint."""

    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds one attempt may take from first to last byte."""

    max_retries: int = Field(default=8, ge=0)
    """How many attempts may follow a failed first one."""

    retry_time_s: float = Field(default=900.0, ge=0)
    """Seconds that the attempts of one call and the waits between them may take together."""

    extra: dict[str, Any] = {}
    """Further fields of the request body, sent as they are (`reasoning_effort`, `top_p`, …)."""

    @field_validator("base_urls")
    @classmethod
    def _are_web_addresses(cls, urls: list[str]) -> list[str]:
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise UserError(f"base URL {url!r}: it must start with http:// or https://")
        return [url.rstrip("/") for url in urls]
