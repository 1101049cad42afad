"""Recipes: the settings of published SimpleQA scores, by variant.

A recipe sets the model prompt, the judge prompt, the verdict rule and the judge. It sets the sampling if the published
code states it. A run with an unchanged recipe is comparable with the published scores.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from refsol.errors import InputError
from refsol.simpleqa.data import Variant
from refsol.simpleqa.prompts import ModelPrompt, Template
from refsol.simpleqa.verdict import Rule

RecipeName = Literal["own", "simple-evals", "opencompass", "autorater"]
OWN = "own"
Headline = Literal["correct", "F"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of one variant.

    `model_prompt` and `judge_prompt` are names in `published`. An empty model prompt is the question alone; an empty
    judge prompt is a user's file. `sampling` and `judge_sampling` come from the published code; a temperature below 0
    means the endpoint's default. `questions` is the size of the published set. `source` is where its prompts are.
    """

    name: RecipeName
    variant: Variant
    model_prompt: str
    judge_prompt: str
    rule: Rule
    judge: str
    questions: int
    source: str
    languages: tuple[str, ...] = ("en",)
    headline: Headline = "correct"
    sampling: Mapping[str, Any] = field(default_factory=dict)
    judge_sampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def question_alone(self) -> ModelPrompt:
        """The model prompt that consists of the question only."""
        return ModelPrompt({language: Template("{question}", {}) for language in self.languages})


def _recipes() -> Iterator[Recipe]:
    text = Path(__file__).with_name("recipes.toml").read_text(encoding="utf-8")
    for recipe in tomllib.loads(text)["recipe"]:
        yield Recipe(**{**recipe, "languages": tuple(recipe.get("languages", ("en",)))})


RECIPES = tuple(_recipes())


def recipe_of(name: str, variant: str) -> Recipe | None:
    """The recipe with this name for a variant; None for the project's own. Raises InputError with all valid pairs."""
    recipe = next((recipe for recipe in RECIPES if (recipe.name, recipe.variant) == (name, variant)), None)
    if recipe is None and name != OWN:
        pairs = "; ".join(
            f"{name}: {', '.join(recipe.variant for recipe in RECIPES if recipe.name == name) or 'every variant'}"
            for name in get_args(RecipeName)
        )
        raise InputError(f"--recipe {name} is not for --variant {variant}. Variants by recipe: {pairs}")
    return recipe
