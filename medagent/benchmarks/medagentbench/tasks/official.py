"""Imports the published data set from a user's checkout of the official repository, as the data set `official`.

The task files and the function list must match the published SHA-256. The prompt and the replies are read from the
runner's source with `ast`; the source is never executed. They are found by their shape, not by name: the prompt is the
module-level text with the four fields; a reply is the `content` of a dictionary with the role `user` that is passed to
a call.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from medagent.benchmarks.medagentbench.tasks.dataset import OFFICIAL_DIGESTS, dataset_folder
from medagent.core.errors import UserError
from medagent.core.writing import file_digest, write_whole, writing
from medagent.fhir_episodes.protocol import load_protocol
from refsol.medagentbench.constants import PUBLISHED
from refsol.python_text import python_module

FILES = {
    **{f"test_data_{version}.json": digest for version, digest in OFFICIAL_DIGESTS.items()},
    "funcs_v1.json": "c977266db5eca75182c0d12cac1962b33ae6b5a54b9029ceb104e1a93b4c38c1",
}
"""The published files under `data/medagentbench/`, and their SHA-256."""

SOURCE = "src/server/tasks/medagentbench/__init__.py"
_FIELDS = ("{api_base}", "{functions}", "{context}", "{question}")
# The text of an HTTP error from `requests` (raise_for_status), which the published runner passes on.
_HTTP_ERROR = "{status} {kind} Error: {reason} for url: {url}"


@dataclass(frozen=True, slots=True)
class Texts:
    """The runner's texts, as templates of a protocol file."""

    prompt: str
    get_reply: str
    get_error: str
    post_accepted: str
    post_invalid: str


def is_official(checkout: Path) -> bool:
    """Whether a folder contains the published files, unchanged."""
    return all(
        (path := checkout / "data" / "medagentbench" / name).is_file() and file_digest(path) == digest
        for name, digest in FILES.items()
    )


def import_official(checkout: Path) -> Path:
    """Import into the user's data folder. Returns the data set's folder. All input is checked before files are written.

    Raises UserError with the missing or changed file, or with the texts that were not found.
    """
    files = {name: _published(checkout / "data" / "medagentbench" / name, digest) for name, digest in FILES.items()}
    files["functions.json"] = files.pop("funcs_v1.json")
    source = checkout / SOURCE
    texts = read_texts(_text(_read(source), source), source)
    files["protocol.toml"] = _protocol_file(texts)
    folder = dataset_folder("official")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_whole(folder / name, text)
    load_protocol("text", file=folder / "protocol.toml", functions=folder / "functions.json")
    return folder


def read_texts(source: str, path: Path) -> Texts:
    """Find the texts in the runner's source. Raises UserError with the texts that were not found."""
    try:
        module = python_module(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not valid Python: {error}") from None
    contents = list(_user_contents(module))
    frames = list(_frames(contents))
    plain = [node.value for node in contents if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    texts = {
        "prompt": next(_prompts(module), None),
        "get_reply": next((frame.around("{body}") for frame in frames if not frame.is_error), None),
        "get_error": next((frame.around("{error}") for frame in frames if frame.is_error), None),
        "post_accepted": next((text for text in plain if PUBLISHED.acknowledgement in text), None),
        "post_invalid": next((text for text in plain if PUBLISHED.acknowledgement not in text), None),
    }
    if missing := [name for name, text in texts.items() if text is None]:
        raise UserError(
            f"{path}: contains no text of the expected shape for {', '.join(missing)}; check out the official version"
        )
    return Texts(**{name: text for name, text in texts.items() if text is not None})


def _published(path: Path, digest: str) -> str:
    raw = _read(path)
    if hashlib.sha256(raw).hexdigest() != digest:
        raise UserError(f"{path}: is not the published file (its SHA-256 differs); check out the official version")
    return _text(raw, path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read: {error.strerror}; is the folder a checkout of the official repository?"
        ) from None


def _text(raw: bytes, path: Path) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 at byte {error.start}") from None


def _prompts(module: ast.Module) -> Iterator[str]:
    """Module-level texts with all four fields. Doubled braces become single ones, as in `str.format`."""
    for statement in module.body:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        text = value.value if isinstance(value, ast.Constant) else None
        if isinstance(text, str) and all(field in text for field in _FIELDS):
            yield text.replace("{{", "{").replace("}}", "}")


def _user_contents(module: ast.Module) -> Iterator[ast.expr]:
    """X of each call with `{"role": "user", "content": X}`, in the order of the source."""
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        for argument in call.args:
            if isinstance(argument, ast.Dict):
                entries = {
                    key.value: value
                    for key, value in zip(argument.keys, argument.values, strict=True)
                    if isinstance(key, ast.Constant)
                }
                role = entries.get("role")
                if isinstance(role, ast.Constant) and role.value == "user" and "content" in entries:
                    yield entries["content"]


@dataclass(frozen=True, slots=True)
class _Frame:
    """An f-string with one value: the text before and after it, and the value's source."""

    before: str
    value: str
    after: str

    @property
    def is_error(self) -> bool:
        """Whether the value is an error, not the result of a GET."""
        return "error" in f"{self.before} {self.value} {self.after}".lower()

    def around(self, field: str) -> str:
        """The f-string as a template, with a field instead of the value."""
        return self.before + field + self.after


def _frames(contents: list[ast.expr]) -> Iterator[_Frame]:
    for node in contents:
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        places = [place for place, part in enumerate(parts) if isinstance(part, ast.FormattedValue)]
        if len(places) == 1:
            before, after = (
                "".join(str(part.value) for part in side if isinstance(part, ast.Constant))
                for side in (parts[: places[0]], parts[places[0] + 1 :])
            )
            yield _Frame(before, ast.unparse(parts[places[0]]), after)


def _protocol_file(texts: Texts) -> str:
    """The protocol as TOML. JSON's escapes are valid in TOML's basic strings."""
    fields = {"kind": "text", "format_parameter": "append", "http_error": _HTTP_ERROR, **asdict(texts)}
    return "".join(f"{name} = {json.dumps(text, ensure_ascii=False)}\n" for name, text in fields.items())
