"""Prompts published by others, read from a user's checkout and identified by digest. This package contains none.

Source files are parsed, not executed. HuSimpleQA's judge prompts are the constant JUDGE_PROMPT of a file. Every other
text is a constant of some file and is identified by its SHA-256.
"""

from __future__ import annotations

import ast
import hashlib
import json
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refsol.errors import InputError
from refsol.files import read_text
from refsol.python_text import python_module, python_value
from refsol.simpleqa.prompts import Insert, JudgePrompt, ModelPrompt, Template

JUDGE_PROMPTS: Mapping[str, str] = {
    "published": "2e99333231873b54e6c6c6008c0bdbee410a05023cf40ae8cb6498c8d3bfaeb0",
    "published-v1": "a920c9cded29da67f22fa30cf88aae28c550f2b75100d7b112fdeb3e25b62a8c",
    "simple-evals": "30f153b38a49017adbb1da353443a0231b318c5a5a551155819b055db6b88c6f",
    "opencompass-simpleqa": "6571894defb99bbfb2bac93edb5965d2185607a7c23539418d32a30df573c286",
    "opencompass-chinese-simpleqa": "efe4459135b35289ff785f4d8fca64cd904e9d7d5d0a34f6fb6587e8e5273680",
}
"""Published judge prompts by digest. `published` is HuSimpleQA's (OpenCompass PR 1942), `published-v1` its first draft.
"""
MODEL_PROMPTS: Mapping[str, str] = {
    "simple-evals": "740e2ef2a4903f68ef4ede40ce7daaf0367007b3cc4fab481af3191cdacbcd38",
    "opencompass-simpleqa": "ac251e7dd74d1f8d76f0a5854054752a2ec669daaba6e68904dbe0b1beb9f8cb",
    "opencompass-husimpleqa": "925d91aacda3bd17fdff335d01c74d79b85691a5498d76f23b743a4fc7663acc",
}
"""Published model prompts by digest."""
_HUNGARIAN = "opencompass/configs/datasets/OpenHuEval/HuSimpleQA/HuSimpleQA_setting.py"
_ENGLISH = "opencompass/configs/datasets/SimpleQA/simpleqa_gen_0283c3.py"
_CHINESE = "opencompass/datasets/chinese_simpleqa.py"
_SIMPLE_EVALS, _SAMPLER = "simpleqa_eval.py", "sampler/chat_completion_sampler.py"
_FILES = ("opencompass/datasets/OpenHuEval/HuSimpleQA.py", _HUNGARIAN, _ENGLISH, _CHINESE, _SIMPLE_EVALS, _SAMPLER)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The texts of a prompt by SHA-256: `user` by language, or `""` for a judge prompt. A text with a brace is the text
    itself. `file` is the file with the user texts.
    """

    file: str
    user: Mapping[str, str]
    system: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)
    insert: Insert = "escaped"


_JUDGES = {
    "simple-evals": _Pieces(
        _SIMPLE_EVALS,
        {"": "491d0bd19bed57095b0ec230e9b6005a81e86cfbaf76fb604b68c0d6180bc3e7"},
        "75357d685f238b6afd7738be9786fdafde641eb6ca9a3be7471939715a68a4de",
        {"target": "gold", "predicted_answer": "reply"},
        "plain",
    ),
    "opencompass-simpleqa": _Pieces(
        _ENGLISH,
        {"": "0aaea83a0b081f7dfa6cb7881b51d2108e7a01e8a99568c970f6694ef80b896f"},
        "c671fba31984295b0ebf8c5711c529bd579e4a5710057f8433357328da1151ab",
        {"problem": "question", "answer": "gold", "prediction": "reply"},
        "replaced",
    ),
    "opencompass-chinese-simpleqa": _Pieces(
        _CHINESE,
        {"": "01c93faf846fc916e5b84de66bb6b61a0eb2c40cf0ac832a7916edbfe15392e6"},
        "4607d21e15c12c490ab62519691209f98c3fdd6116e6ef786556116ce3625aa7",
        {"target": "gold", "predicted_answer": "reply"},
        "late",
    ),
}
_MODELS = {
    "simple-evals": _Pieces(
        _SAMPLER, {"en": "{question}"}, "75357d685f238b6afd7738be9786fdafde641eb6ca9a3be7471939715a68a4de"
    ),
    "opencompass-simpleqa": _Pieces(
        _ENGLISH,
        {"en": "759f083c0a5868a3cf92721cdf6346d69a3390f625e142c552f408df8557fde8"},
        aliases={"problem": "question"},
    ),
    "opencompass-husimpleqa": _Pieces(
        _HUNGARIAN,
        {
            "en": "640a0de2143afac95dcb58bbea4c1232bf4d76b675268d05b923abdce6951009",
            "hu": "c4eb19693d39a5f638e14af72b7f5a2ed2dedd2baf9cdf13f2f5162e4b1bcd4a",
        },
    ),
}


@dataclass(frozen=True, slots=True)
class PublishedPrompts:
    """The prompts of a checkout by name. `unknown` lists the prompts whose file exists but contains another text."""

    judges: Mapping[str, JudgePrompt]
    models: Mapping[str, ModelPrompt]
    unknown: tuple[str, ...] = ()


def published_prompts(place: Path) -> PublishedPrompts:
    """The judge prompts and model prompts in a checkout (OpenCompass, simple-evals) or in one of its files.

    Raises InputError if there is none, or for a JUDGE_PROMPT with an unknown digest.
    """
    paths = [path for path in (place / name for name in _FILES) if path.is_file()] if place.is_dir() else [place]
    if not paths:
        raise InputError(f"{place}: contains none of {', '.join(_FILES)}")
    judges: dict[str, JudgePrompt] = {}
    texts: dict[str, str] = {}
    for path in paths:
        module = _module(path)
        judges |= _husimpleqa(path, module)
        texts |= {_sha256(text): text for text in _constants(module)}
    for name, pieces in _JUDGES.items():
        if matches := _texts(pieces, texts):
            system, user = matches
            judges[name] = JudgePrompt(Template(user[""], pieces.aliases), "letters", system, pieces.insert)
    models = {
        name: ModelPrompt(
            {language: Template(text, pieces.aliases) for language, text in matches[1].items()}, matches[0]
        )
        for name, pieces in _MODELS.items()
        if (matches := _texts(pieces, texts))
    }
    if not judges and not models:
        raise InputError(f"{place}: contains no prompt with a known digest")
    known = [(f"judge prompt {name}", name in judges, pieces) for name, pieces in _JUDGES.items()]
    known += [(f"model prompt {name}", name in models, pieces) for name, pieces in _MODELS.items()]
    unknown = tuple(name for name, copied, pieces in known if not copied and place / pieces.file in paths)
    return PublishedPrompts(judges, models, unknown)


def judge_toml(prompt: JudgePrompt) -> str:
    """The TOML file of a judge prompt, which `judge_prompt` reads."""
    lines = {
        "labels": prompt.labels,
        "insert": prompt.insert,
        "system": prompt.system,
        "user": prompt.template.text,
    }
    return _toml(lines) + _table("aliases", prompt.template.aliases)


def model_toml(prompt: ModelPrompt) -> str:
    """The TOML file of a model prompt, which `model_prompt` reads."""
    aliases = next(iter(prompt.templates.values())).aliases
    texts = {language: template.text for language, template in prompt.templates.items()}
    return _toml({"system": prompt.system}) + _table("user", texts) + _table("aliases", aliases)


def _table(name: str, lines: Mapping[str, str]) -> str:
    return f"\n[{name}]\n{_toml(lines)}"


def _toml(lines: Mapping[str, str]) -> str:
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in lines.items())


def _module(path: Path) -> ast.Module:
    try:
        return python_module(read_text(path))
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}: is not a Python file: {error}") from None


def _constants(module: ast.Module) -> Iterator[str]:
    """Every text constant of a module, both as it is and stripped (the published code calls `.strip()`)."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
            yield node.value.strip()


def _texts(pieces: _Pieces, texts: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
    """The system text and the user texts of a prompt; None if one is missing."""
    digests = {name: digest for name, digest in pieces.user.items() if "{" not in digest}
    if any(digest not in texts for digest in [*digests.values(), *filter(None, [pieces.system])]):
        return None
    user = {name: texts.get(digest, digest) for name, digest in pieces.user.items()}
    return texts[pieces.system] if pieces.system else "", user


def _husimpleqa(path: Path, module: ast.Module) -> dict[str, JudgePrompt]:
    values = [
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["JUDGE_PROMPT"]
    ]
    if not values:
        return {}
    try:
        prompt = _judge_prompt(python_value(values[-1]))
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: needs a JUDGE_PROMPT with system_prompt and user_prompt") from None
    name = next((name for name, digest in JUDGE_PROMPTS.items() if digest == prompt.digest), None)
    if name is None:
        known = ", ".join(f"{name} {JUDGE_PROMPTS[name][:8]}" for name in ("published", "published-v1"))
        raise InputError(f"{path}: unknown JUDGE_PROMPT (sha256 {prompt.digest[:8]}; known: {known})")
    return {name: prompt}


def _judge_prompt(value: Any) -> JudgePrompt:
    """The published prompt is one message with placeholders to replace. Its first draft is two messages, the second of
    which is a format string.
    """
    system, user = value["system_prompt"], value["user_prompt"]
    if "{prediction}" in user:
        return JudgePrompt(Template(system + user, {"answer": "gold", "prediction": "reply"}), "json", "", "replaced")
    pieces = [(text, name) for text, name, _, _ in string.Formatter().parse(user)]
    text = "".join(part + (f"{{{name}}}" if name else "") for part, name in pieces)
    return JudgePrompt(Template(text, {"answer": "gold", "pred_answer": "reply"}), "json", system, "formatted")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
