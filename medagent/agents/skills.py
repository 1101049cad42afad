"""Skills in the agentskills.io format: a folder with SKILL.md (name, description, instructions) and further files.

Only the named folder is read, once, when a run is planned. A link in it that leads out of it is an error. So a run, its
workers and its digest know the same texts, whatever happens to the folder later.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medagent.core.errors import UserError

MANIFEST = "SKILL.md"
LARGEST = 1_000_000
"""The most characters of a skill's files together."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_FRONT = re.compile(r"\A---\r?\n(?P<front>.*?)\r?\n---[ \t]*(?:\r?\n|\Z)(?P<body>.*)\Z", re.DOTALL)
_FIELD = re.compile(r"(?P<name>[\w-]+):[ \t]*(?P<value>.*)")
_FOLDED = ("", ">", ">-", "|", "|-")
"""What stands after the colon of a value on the next lines."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill: `body` are the instructions of SKILL.md, `files` its other texts by their paths in the folder."""

    name: str
    description: str
    body: str
    files: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of everything that an agent can read."""
        read = json.dumps([self.name, self.description, self.body, self.files], ensure_ascii=False)
        return hashlib.sha256(read.encode()).hexdigest()

    @property
    def setting(self) -> str:
        """The skill in `run.json`: its name and digest."""
        return f"{self.name} {self.digest}"


def skill_files(skills: Sequence[Skill]) -> dict[str, str]:
    """The further files of skills, by `SKILL/PATH`."""
    return {f"{skill.name}/{path}": text for skill in skills for path, text in skill.files}


def read_skills(folders: Sequence[Path]) -> tuple[Skill, ...]:
    """The skills in these folders. Raises UserError if one is not a skill, or if two have the same name."""
    skills = tuple(map(read_skill, folders))
    for place, skill in enumerate(skills):
        if skill.name in {earlier.name for earlier in skills[:place]}:
            raise UserError(f"--skill {folders[place]}: an earlier skill has the name {skill.name} too")
    return skills


def read_skill(folder: Path) -> Skill:
    """The skill in a folder. Raises UserError if it is not a skill, or contains a link that leads out of it."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise UserError(f"--skill {folder}: contains no {MANIFEST}; a skill is a folder with it (agentskills.io)")
    texts = dict(_texts(folder))
    if MANIFEST not in texts:
        raise UserError(f"{manifest}: is not UTF-8 text; store it as UTF-8")
    parts = _FRONT.match(texts.pop(MANIFEST))
    fields = _fields(parts["front"]) if parts else {}
    for name in ("name", "description"):
        if not fields.get(name):
            raise UserError(f"{manifest}: lacks `{name}`; write `{name}: …` between two lines --- at its beginning")
    if not _NAME.fullmatch(fields["name"]):
        raise UserError(
            f"{manifest}: name {fields['name']!r}: only small letters, digits and '-' are allowed, at most 64"
        )
    if (size := sum(map(len, texts.values()))) > LARGEST:
        raise UserError(f"--skill {folder}: its files have {size:,} characters; the limit is {LARGEST:,}")
    body = parts["body"].strip() if parts else ""
    return Skill(fields["name"], fields["description"], body, tuple(sorted(texts.items())))


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """The text files of a folder by path. Hidden files, and files that are not text, are left out."""
    whole = folder.resolve()
    for place, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith((".", "__pycache__")))
        for name in [*names, *sorted(files)]:
            path = Path(place, name)
            if not _resolved(path, folder).is_relative_to(whole):
                raise UserError(f"--skill {folder}: {path} is a link out of the folder, which medagent does not follow")
            if name in files and not name.startswith(".") and (text := _text(path)) is not None:
                yield path.relative_to(folder).as_posix(), text


def _resolved(path: Path, folder: Path) -> Path:
    """The file behind a path of a skill. Raises UserError."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):  # before Python 3.13, a circle of links is a RuntimeError
        raise UserError(f"--skill {folder}: {path} is a link that leads nowhere; remove it") from None


def _text(path: Path) -> str | None:
    """The text of a file; None if it is not UTF-8 text. Raises UserError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig") if path.is_file() else None
    except UnicodeDecodeError:
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    return None if text is None or "\0" in text else text


def _fields(front: str) -> dict[str, str]:
    """The top-level texts of a front matter. A value may go on over indented lines."""
    fields: dict[str, str] = {}
    name = ""
    for line in front.splitlines():
        match = _FIELD.fullmatch(line)
        if match is not None:
            name, value = match["name"], match["value"].strip()
            fields[name] = "" if value in _FOLDED else _unquoted(value)
        elif name and line[:1].isspace():
            fields[name] = f"{fields[name]} {line.strip()}".strip()
    return fields


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value
