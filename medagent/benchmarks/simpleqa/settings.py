"""The options of a run of SimpleQA, in addition to the options of every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import model_validator

from medagent.agents.single_turn import SingleTurnSettings
from medagent.benchmarks.simpleqa._recipes import recipe_digests, recipe_prompt
from medagent.core.errors import UserError
from medagent.core.options import Names, Option, RunOption, Setting
from medagent.engine.settings import Encoding, RunSettings
from medagent.judging.panel import Panel, PanelSettings
from medagent.judging.rubric import BUNDLED as OWN_PROMPT
from medagent.judging.rubric import P, Rubric
from medagent.models.settings import ModelSettings
from refsol.simpleqa.data import Variant
from refsol.simpleqa.prompts import ModelPrompt, model_prompt
from refsol.simpleqa.recipes import OWN, Recipe, RecipeName, recipe_of

DATA = "The data"
BUNDLED = Path(__file__).parent / "data" / "hungarian.jsonl"


class SimpleqaSettings(PanelSettings, SingleTurnSettings):
    """The options of `medagent run simpleqa`."""

    data: Annotated[Path, Option(DATA, "place", kind="path")] = BUNDLED
    """The questions. Default: the forty bundled Hungarian ones."""
    variant: Annotated[Variant, Option(DATA, kind="value")] = "husimpleqa"
    """The format of --data."""
    recipe: Annotated[RecipeName, Option(DATA, kind="value")] = "own"
    """Whose prompts, verdict rule and judge to use: this project's (own), or published ones for comparable scores.
    Each recipe is for some of --variant. `medagent simpleqa prompt` copies the prompts.
    """
    encoding: Annotated[Encoding, Option(DATA, "place", kind="value")] = "utf-8"
    """The encoding of --data."""
    prompt: Annotated[Path | None, Option(DATA, "place", kind="path")] = None
    """Your own prompt (TOML)."""
    lang: Annotated[Names, RunOption(DATA, "place", metavar="LANG,LANG", kind="value")] = ()
    """Languages of the instruction, e.g. en,hu (default: all of the prompt)."""

    @model_validator(mode="before")
    @classmethod
    def _by_recipe(cls, options: Any) -> Any:
        """A recipe sets the judge, the judge prompt and the sampling, unless they are passed explicitly."""
        if not isinstance(options, dict):
            return options
        recipe = recipe_of(options.get("recipe", OWN), options.get("variant", "husimpleqa"))
        if recipe is None:
            return options
        return {
            "judge": [recipe.judge],
            "judge_prompt": recipe.judge_prompt or OWN_PROMPT,
            **recipe.sampling,
            **options,
        }

    @model_validator(mode="after")
    def _fits(self) -> SimpleqaSettings:
        if self.data == BUNDLED and self.variant != "husimpleqa":
            raise UserError(f"--variant {self.variant}: pass the questions with --data FILE")
        return self

    @property
    def published(self) -> Recipe | None:
        """The recipe, if it is not the project's own. Raises InputError if it is not for the variant."""
        return recipe_of(self.recipe, self.variant)

    @property
    def languages(self) -> Sequence[str]:
        """The languages of the model prompt. Raises InputError."""
        recipe = self.published
        return recipe.languages if recipe and self.prompt is None else list(self.model_prompt().templates)

    def model_prompt(self) -> ModelPrompt:
        """The prompt for a question: the user's, the recipe's or the project's. Raises UserError, InputError."""
        recipe = self.published
        return recipe_prompt(recipe) if recipe and self.prompt is None else model_prompt(self.variant, self.prompt)

    @property
    def system_text(self) -> str:
        """See `AnswerSettings.system_text`. If there is none, the model prompt's."""
        return super().system_text if self.system is not None else self.model_prompt().system

    def judges(self, run: RunSettings) -> list[ModelSettings]:
        """See `PanelSettings.judges`. The recipe sets the sampling."""
        judges, recipe = super().judges(run), self.published
        sampling = dict(recipe.judge_sampling) if recipe else {}
        if sampling.get("temperature", 0) < 0:
            sampling["temperature"] = None
        return [judge.model_copy(update=sampling) for judge in judges]

    def panel(self, rubric: Rubric[P], run: RunSettings) -> Panel[P]:
        """See `PanelSettings.panel`. The recipe sets the verdict rule, and may need a judge prompt."""
        recipe = self.published
        if recipe and not recipe.judge_prompt and self.judge_prompt == OWN_PROMPT:
            raise UserError(
                f"--recipe {recipe.name}: pass its judge prompt with --judge-prompt FILE.txt: the text"
                f" of {recipe.source}"
            )
        panel = super().panel(rubric, run)
        return replace(panel, rule=recipe.rule) if recipe else panel

    def decides(self) -> dict[str, Setting]:
        recipe = self.published
        return {**super().decides(), **({"recipe": None} if recipe is None else recipe_digests(recipe))}

    def asked_languages(self) -> Sequence[str]:
        """The selected languages. Raises UserError for one that the prompt does not offer."""
        if unknown := [language for language in self.lang if language not in self.languages]:
            raise UserError(f"--lang {unknown[0]}: the prompt exists in {', '.join(self.languages)}")
        return self.lang or self.languages
