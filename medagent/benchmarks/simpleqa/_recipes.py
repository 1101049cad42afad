"""The published prompts on this machine, and which scores a recipe's score is comparable with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from medagent.core.errors import UserError
from medagent.core.options import Setting
from medagent.core.paths import data_dir
from medagent.judging.panel import Panel
from refsol.simpleqa.prompts import JudgePrompt, ModelPrompt, model_prompt
from refsol.simpleqa.published import JUDGE_PROMPTS, MODEL_PROMPTS
from refsol.simpleqa.recipes import OWN, Recipe, recipe_of

_SHOWN = 12
"""The number of digest characters shown to people."""
_ADDED = ("agent", "answers-digest", "system-digest", "few-shot-digest", "strip-thinking", "extra")
"""Settings that change what the model is asked, or how its answer is read."""


def published_place(name: str, kind: Literal["judge", "model"] = "judge") -> Path:
    """The file of a published prompt after it was copied from a checkout."""
    return data_dir() / "simpleqa" / f"{name}-{kind}.toml"


def recipe_prompt(recipe: Recipe) -> ModelPrompt:
    """The model prompt of a recipe. Raises UserError if it was not copied from a checkout."""
    if not recipe.model_prompt:
        return recipe.question_alone
    place = published_place(recipe.model_prompt, "model")
    if not place.is_file():
        raise UserError(
            f"--recipe {recipe.name}: its prompts are not part of medagent; copy them from {recipe.source} with"
            " medagent simpleqa prompt CHECKOUT"
        )
    return model_prompt(recipe.variant, place)


def recipe_digests(recipe: Recipe) -> dict[str, Setting]:
    """The settings of a recipe, as values for `run.json`."""
    return {
        "recipe:judge": recipe.judge,
        "recipe:rule": recipe.rule,
        "recipe:model-prompt-digest": _model_digest(recipe),
        "recipe:judge-prompt-digest": JUDGE_PROMPTS.get(recipe.judge_prompt),
    }


def score_line(settings: Mapping[str, Setting], questions: int, panels: Collection[Panel[JudgePrompt]]) -> str:
    """Whether a run's score is comparable with published ones: as published, or what was changed.

    `settings` come from `run.json`, `questions` is the number of questions asked, `panels` are the panels that decide.
    """
    recipe = recipe_of(str(settings.get("recipe") or OWN), str(settings.get("variant")))
    if recipe is None:
        return (
            "recipe own: this project's prompts, not comparable with published scores (the scores of other recipes are)"
        )
    changed = [*_asked(recipe, settings, questions), *(text for panel in panels for text in _judged(recipe, panel))]
    head = f"recipe {recipe.name} for {recipe.variant}"
    if changed:
        return f"{head}: changed: {'; '.join(dict.fromkeys(changed))}"
    if recipe.judge_prompt:
        return f"{head}: as published"
    digests = ", ".join(dict.fromkeys(panel.prompt.digest[:_SHOWN] for panel in panels))
    return f"{head}: as published, if your judge prompt (sha256 {digests}) is {recipe.source}'s"


def _asked(recipe: Recipe, settings: Mapping[str, Setting], questions: int) -> Iterator[str]:
    """The differences in how the model was asked."""
    if settings.get("model-prompt-digest") != _model_digest(recipe):
        yield f"model prompt {str(settings.get('model-prompt-digest'))[:_SHOWN]}"
    for name in _ADDED:
        if settings.get(name):
            yield f"--{name.removesuffix('-digest')}"
    if settings.get("model"):
        yield from _sampling("", recipe.sampling, {name: settings.get(_flag(name)) for name in recipe.sampling})
    if questions != recipe.questions:
        yield f"{questions:,} question{'s' * (questions != 1)} (published: {recipe.questions:,})"


def _judged(recipe: Recipe, panel: Panel[JudgePrompt]) -> Iterator[str]:
    """The differences in how the answers were judged."""
    if panel.names != [recipe.judge]:
        yield f"judge {', '.join(panel.names)} (published: {recipe.judge})"
    if panel.prompt.digest != JUDGE_PROMPTS.get(recipe.judge_prompt, panel.prompt.digest):
        yield f"judge prompt {panel.prompt.digest[:_SHOWN]}"
    if panel.rule != recipe.rule:
        yield f"verdict rule {panel.rule or 'robust'} (published: {recipe.rule})"
    for judge in panel.judges:
        actual = {name: getattr(judge, name) for name in recipe.judge_sampling}
        yield from _sampling("judge's ", recipe.judge_sampling, actual)


def _sampling(whose: str, stated: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[str]:
    for name, value in stated.items():
        if _meaning(actual[name]) != _meaning(value):
            yield f"{whose}{_flag(name)} {_meaning(actual[name])} (published: {_meaning(value)})"


def _meaning(value: Any) -> str:
    """A setting as text. A temperature below 0, or a limit that is not set, is the endpoint's default."""
    return "of the endpoint" if value is None or value < 0 else f"{value:g}"


def _model_digest(recipe: Recipe) -> str:
    return MODEL_PROMPTS[recipe.model_prompt] if recipe.model_prompt else recipe.question_alone.digest


def _flag(name: str) -> str:
    return name.replace("_", "-")
