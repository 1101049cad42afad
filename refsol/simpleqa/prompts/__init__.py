"""Prompts as data: TOML files with a text per language and named placeholders, filled in one pass.

The placeholders are `{question}`, `{gold}` and `{reply}`; `aliases` renames them in a file. All other braces are text.
What the judge sees is escaped as in a JSON string, so a reply can neither close the quotes around it nor add a
placeholder.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Literal, get_args

from refsol.errors import InputError
from refsol.files import read_text
from refsol.simpleqa.data import Variant
from refsol.simpleqa.replies import strip_reasoning

_FENCE = re.compile(r"^```json\n|\n```$")
"""OpenCompass removes this from a reply before a judge sees it."""
Insert = Literal["escaped", "formatted", "plain", "late", "replaced"]
_MEANINGS = ("question", "gold", "reply")
_FOLDER = Path(__file__).parent
_MODEL_FILES: dict[Variant, str] = {
    "husimpleqa": "husimpleqa.toml",
    "simpleqa": "simpleqa.toml",
    "simpleqa-verified": "simpleqa.toml",
    "chinese-simpleqa": "chinese-simpleqa.toml",
}


@dataclass(frozen=True, slots=True)
class Template:
    """A text with placeholders; `aliases` maps the file's own names to `question`, `gold` and `reply`."""

    text: str
    aliases: Mapping[str, str]

    @property
    def placeholders(self) -> set[str]:
        """The placeholders in the text: some of `question`, `gold`, `reply`."""
        return set(self._pieces()[1::2])

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with every placeholder replaced by its value, in one pass over the template."""
        pieces = list(self._pieces())
        pieces[1::2] = [values[meaning] for meaning in pieces[1::2]]
        return "".join(pieces)

    def replace(self, values: Mapping[str, str]) -> str:
        """The text with one placeholder after another replaced, as `str.replace` does."""
        text = self.text
        for meaning, value in values.items():
            for name in [name for name, aliased in self.aliases.items() if aliased == meaning] or [meaning]:
                text = text.replace(f"{{{name}}}", value)
        return text

    def _pieces(self) -> tuple[str, ...]:
        return _pieces(self.text, tuple(self.aliases.items()))


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """The message for a question, by language; `system` is a message before it."""

    templates: Mapping[str, Template]
    system: str = ""

    def fill(self, language: str, question: str) -> str:
        """The message to the model. Raises KeyError for a language in which the prompt is not available."""
        return self.templates[language].fill({"question": question})

    @property
    def digest(self) -> str:
        """SHA-256 of the texts by language, and of the system message under an empty name."""
        texts = {name: template.text for name, template in self.templates.items()}
        return hashlib.sha256(json.dumps({**({"": self.system} if self.system else {}), **texts}).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class JudgePrompt:
    """The message that shows an answer to the judge. `labels` is the format of the labels, `system` a message
    before it.

    `insert` sets how the values are inserted. `escaped`: as in a JSON string; the reply without its reasoning.
    `plain`: unchanged. `formatted`: unchanged; the reply without a JSON fence. `late`: unchanged; the reply last, at
    each `{prediction}`, also inside a value. `replaced`: unchanged, one after another (question, gold answer, reply),
    so that a value can contain the placeholder of a later one.
    """

    template: Template
    labels: Literal["json", "letters"]
    system: str = ""
    insert: Insert = "escaped"

    def fill(self, question: str, gold: str, reply: str) -> str:
        """The message to the judge. Non-ASCII text is not escaped."""
        if self.insert == "replaced":
            return self.template.replace({"question": question, "gold": gold, "reply": reply})
        if self.insert == "late":
            message = self.template.fill({"question": question, "gold": gold, "reply": "{prediction}"})
            return message.replace("{prediction}", reply)
        if self.insert in ("plain", "formatted"):
            shown = _FENCE.sub("", reply) if self.insert == "formatted" else reply
            return self.template.fill({"question": question, "gold": gold, "reply": shown})
        values = {"question": question, "gold": gold, "reply": strip_reasoning(reply)}
        return self.template.fill({name: encode_basestring(text)[1:-1] for name, text in values.items()})

    @property
    def digest(self) -> str:
        """SHA-256 of the texts, before values are inserted."""
        how: dict[Insert, bool | str] = {"escaped": True, "formatted": False}
        texts = json.dumps([self.system, self.template.text, how.get(self.insert, self.insert)], ensure_ascii=False)
        return hashlib.sha256(texts.encode()).hexdigest()


def model_prompt(variant: Variant, path: Path | None = None) -> ModelPrompt:
    """The project's prompt for a variant, or the one in a user's file. Raises InputError if the file is not valid."""
    source = path or _FOLDER / _MODEL_FILES[variant]
    table = _load(source)
    texts, system = table.get("user"), table.get("system", "")
    if (
        not isinstance(system, str)
        or not isinstance(texts, dict)
        or not texts
        or not all(isinstance(text, str) for text in texts.values())
    ):
        raise InputError(f"{source}: needs a table [user] with a text for each language; `system` is a text")
    templates = {language: Template(text, _aliases(table, source)) for language, text in texts.items()}
    for language, template in templates.items():
        _check(template, {"question"}, f"{source}: user.{language}")
    return ModelPrompt(templates, system)


def judge_prompt(path: Path | None = None) -> JudgePrompt:
    """The project's judge prompt, or the one in a user's file: TOML, or a text (`.txt`) with SimpleQA's placeholders
    {question}, {target} and {predicted_answer} that asks for letters. Raises InputError if the file is not valid.
    """
    source = path or _FOLDER / "judge.toml"
    if source.suffix == ".txt":
        template = Template(read_text(source).strip(), {"target": "gold", "predicted_answer": "reply"})
        _check(template, {"question", "gold", "reply"}, f"{source}")
        return JudgePrompt(template, "letters", insert="plain")
    table = _load(source)
    text, labels = table.get("user"), table.get("labels")
    system, insert = table.get("system", ""), table.get("insert", "escaped")
    if not isinstance(text, str):
        raise InputError(f"{source}: needs `user`, the text of the message to the judge")
    if labels not in ("json", "letters"):
        raise InputError(f'{source}: needs `labels = "json"` or `labels = "letters"`: the format of the labels')
    if not isinstance(system, str) or insert not in get_args(Insert):
        raise InputError(f"{source}: `system` is a text, `insert` one of {', '.join(get_args(Insert))}")
    template = Template(text, _aliases(table, source))
    _check(template, {"question", "gold", "reply"}, f"{source}: user")
    return JudgePrompt(template, labels, system, insert)


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: is not TOML: {error}") from None


def _aliases(table: Mapping[str, Any], path: Path) -> dict[str, str]:
    aliases = table.get("aliases", {})
    if not isinstance(aliases, dict) or any(value not in _MEANINGS for value in aliases.values()):
        raise InputError(f"{path}: [aliases] maps names to question, gold or reply")
    return aliases


def _check(template: Template, names: set[str], place: str) -> None:
    if missing := sorted(names - template.placeholders):
        raise InputError(
            f"{place} does not contain {{{missing[0]}}}; write it where that text belongs, or name it in [aliases]"
        )
    if extra := sorted(template.placeholders - names):
        raise InputError(f"{place} contains {{{extra[0]}}}, which the model must not see")


@cache
def _pieces(text: str, aliases: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The text split at its placeholders: texts at even places, placeholder names at odd ones."""
    meanings = {name: name for name in _MEANINGS} | dict(aliases)
    pieces = re.split(r"\{(" + "|".join(sorted(map(re.escape, meanings))) + r")\}", text)
    pieces[1::2] = [meanings[name] for name in pieces[1::2]]
    return tuple(pieces)
