"""The judges and their prompt: options of every command that judges answers, and the panel made from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Generic, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from medagent.agents.choice import check_prices, keyed
from medagent.core.errors import UserError
from medagent.core.options import Option, RunOption
from medagent.engine.settings import RunSettings
from medagent.judging.rubric import BUNDLED, P, Rubric
from medagent.models.settings import ModelSettings, key_table

JUDGES = "The judges"
MOST_UNREAD = 0.05
"""The share of answers without a readable label up to which a run counts as complete."""


@dataclass(frozen=True, slots=True)
class Panel(Generic[P]):
    """Judges with their prompt: a line of `judgings.jsonl`. `only` are the units that they judge (None: all)."""

    judges: list[ModelSettings]
    prompt: P
    rule: str = ""
    """The rule by which replies are read; empty for the benchmark's default."""
    only: list[str] | None = None

    @property
    def names(self) -> list[str]:
        """The judges' names."""
        return [judge.name for judge in self.judges]

    def covers(self, unit: str) -> bool:
        """Whether the panel judges a unit."""
        return self.only is None or unit in self.only

    def anonymous(self) -> Self:
        """The same without its judges' addresses, for writing to files."""
        return replace(
            self, judges=[judge.model_copy(update={"base_urls": [], "api_key_env": {}}) for judge in self.judges]
        )


class PanelSettings(BaseModel):
    """The options of commands that judge answers."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    allow_unread: Annotated[
        float, Option(JUDGES, "place", metavar="SHARE", kind="value", for_=("run", "source")), Field(ge=0, le=1)
    ] = MOST_UNREAD
    """The share of judged answers that may be without a readable label; above it the exit code is 2."""
    judge: Annotated[list[str], RunOption(JUDGES, "place", kind="code")] = []
    """A model that judges answers; repeat the option for a panel, which decides by majority."""
    judge_base_url: Annotated[list[str], RunOption(JUDGES, "place", kind="address")] = []
    """The judges' endpoint (default: --base-url if the command accepts it, else OPENAI_BASE_URL, else OpenAI)."""
    judge_api_key_env: Annotated[list[str], RunOption(JUDGES, "place", metavar="NAME|HOST=NAME", kind="secret")] = []
    """The environment variable with the judges' key, as in --api-key-env."""
    judge_max_tokens: Annotated[int, RunOption(JUDGES, "place", kind="value", needs="judge"), Field(gt=0)] = 8192
    """Maximum tokens of a judge's reply, unless the published judge states a number."""
    judge_prompt: Annotated[str, RunOption(JUDGES, "place", metavar="NAME|FILE", kind="path", needs="judge")] = BUNDLED
    """The judge prompt: `bundled`, another name from the benchmark's page, or your file (TOML)."""

    @model_validator(mode="after")
    def _panel_fits(self) -> Self:
        if twice := [name for name in self.judge if self.judge.count(name) > 1]:
            raise UserError(f"--judge {twice[0]}: named twice; a panel contains each judge once")
        key_table(self.judge_api_key_env)
        return self

    def judges(self, run: RunSettings) -> list[ModelSettings]:
        """The judges' models. Their default endpoint and key come from the run's model."""
        named = self.judge_api_key_env or ([] if self.judge_base_url else run.api_key_env)
        urls, keys = self.judge_base_url or run.base_url, key_table(named)
        return [run.endpoint(name, urls, api_key_env=keys, max_tokens=self.judge_max_tokens) for name in self.judge]

    def panel(self, rubric: Rubric[P], run: RunSettings) -> Panel[P]:
        """The panel of a run, or of a command that judges again. Raises UserError, InputError."""
        if not self.judge:
            raise UserError("--judge is needed: A judge model, for example --judge gpt-4o")
        judges = self.judges(run)
        check_prices(judges, run.max_cost)
        others = [run.chat] if run.chat is not None else []
        prompt = rubric.prompt(self.judge_prompt)
        return Panel(keyed([*others, *judges])[len(others) :], prompt)


def panel_lines(rubric: Rubric[P]) -> TypeAdapter[Panel[P]]:
    """The type adapter of panels as lines of a file, with the benchmark's prompt type."""
    return TypeAdapter(Panel[rubric.prompt_type])  # type: ignore[name-defined]  # the type is known at run time
