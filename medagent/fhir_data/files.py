"""Reads FHIR resources from files: NDJSON, one resource, or a Bundle; gzipped or not.

A file whose first line is a complete JSON object, followed by more lines, is NDJSON: each line is one resource, even if
it is a Bundle. Any other file is one document. A Bundle that carries resources (transaction, batch, collection,
searchset) is split, and its references become literal: a reference to another entry's `fullUrl` (Synthea's
`urn:uuid:…`) becomes that entry's type and id. A conditional reference (`Practitioner?identifier=system|value`) is
looked up in all files. References that cannot become literal are not changed; the import decides whether that is an
error.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from urllib.parse import unquote

from fhir_server.wire.json_text import compact, decode, render
from fhir_server.wire.json_values import JsonTextError
from medagent.core.errors import UserError

CARRIERS = frozenset({"transaction", "batch", "collection", "searchset"})
"""Bundle types that only carry resources; a document, a message or a history is a resource itself."""

# A quote inside a JSON text is escaped, so this never matches within a value.
_REFERENCE = re.compile(r'("reference"\s*:\s*")([^"\\]+)"')
_REFERRED = re.compile(r'"reference"\s*:\s*"([^"\\]+)"')
_CONDITIONAL = re.compile(r"([A-Z][A-Za-z]+)\?identifier=([^&]+)")
_UUID = "urn:uuid:"


class Read(NamedTuple):
    """One resource as a line of JSON, and its place in the file, for messages."""

    line: str
    place: str

    @property
    def references(self) -> list[str]:
        """The references of the resource, as written."""
        return _REFERRED.findall(self.line)


def read_resources(paths: Sequence[Path], fault: Callable[[str], None] | None = None) -> Iterator[Read]:
    """Every resource in the files, in the order of the files; decimals keep their digits.

    Raises UserError, with file and place, if a file is not readable, not UTF-8, not JSON, or not a resource, or if a
    conditional reference matches two resources. With `fault`, that function gets the message instead, and reading
    continues with the next file.
    """
    identifiers = _Identifiers(paths)
    for path in paths:
        try:
            for read in _file(path):
                yield identifiers.resolve(read)
        except UserError as error:
            if fault is None:
                raise
            fault(str(error))


def is_sqlite(path: Path) -> bool:
    """Whether the file is an SQLite database. Raises UserError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def rewrite_references(line: str, names: Mapping[str, str]) -> str:
    """The line with each reference in `names` replaced by its new name."""
    return _REFERENCE.sub(lambda match: f'{match[1]}{names.get(match[2], match[2])}"', line)


class _Identifiers:
    """Resolves conditional references. At the first of them, all files are read a second time."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def resolve(self, read: Read) -> Read:
        """The resource with its conditional references made literal, if they match one of the resources."""
        if "?identifier=" not in read.line:
            return read
        names = {}
        for reference in read.references:
            if match := _CONDITIONAL.fullmatch(reference):
                meant = sorted(self._known.get((match[1], unquote(match[2])), ()))
                if len(meant) > 1:
                    raise UserError(f"{read.place}: {reference} matches more than one resource: {', '.join(meant)}")
                if meant:
                    names[reference] = meant[0]
        return Read(rewrite_references(read.line, names), read.place) if names else read

    @cached_property
    def _known(self) -> dict[tuple[str, str], set[str]]:
        """References by type and identifier: `system|value`, and `value` for any system."""
        known: dict[tuple[str, str], set[str]] = {}
        for read in chain.from_iterable(map(_file, self._paths)):
            resource = _resource(read.line, read.place)
            identifiers = resource.get("identifier")
            for one in identifiers if isinstance(identifiers, list) else [identifiers]:
                if isinstance(one, dict) and "value" in one and "id" in resource:
                    for text in (f"{one.get('system', '')}|{one['value']}", str(one["value"])):
                        known.setdefault((resource["resourceType"], text), set()).add(_name(resource))
        return known


def _name(resource: Mapping[str, Any]) -> str:
    return f"{resource['resourceType']}/{resource['id']}"


def _file(path: Path) -> Iterator[Read]:
    try:
        with _open(path) as file:
            lines = ((number, text) for number, line in enumerate(file, 1) if (text := line.strip()))
            first, second = next(lines, None), next(lines, None)
            if first is None:
                raise UserError(f"{path}: is empty")
            if second is not None and _is_object(first[1]):
                name = str(path)
                for number, line in chain((first, second), lines):
                    yield _line(line, f"{name}:{number}")
            else:
                file.seek(0)
                yield from _document(file.read(), str(path))
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}:{_first_not_utf8(path)}: is not UTF-8 ({error.reason})") from None


def _open(path: Path) -> TextIO:
    # Lines end at \n only: a JSON string may contain the other line ends that Python knows.
    return io.TextIOWrapper(_open_bytes(path), encoding="utf-8-sig", newline="\n")


def _open_bytes(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _first_not_utf8(path: Path) -> int:
    with _open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    raise AssertionError(f"{path} is UTF-8")


def _is_object(line: str) -> bool:
    try:
        return isinstance(decode(line), dict)
    except JsonTextError:
        return False


def _line(line: str, place: str) -> Read:
    """An NDJSON line, unchanged unless it escapes slashes, as some programs do: that would hide references."""
    return Read(compact(render(_resource(line, place))) if "\\/" in line else line, place)


def _document(text: str, place: str) -> Iterator[Read]:
    resource = _resource(text, place)
    if resource["resourceType"] == "Bundle" and resource.get("type") in CARRIERS:
        yield from _entries(resource, place)
    else:
        yield Read(compact(render(resource)), place)


def _resource(text: str, place: str) -> dict[str, Any]:
    try:
        value = decode(text)
    except JsonTextError as error:
        where = f"line {error.line}, column {error.column}: " if error.line else ""
        raise UserError(f"{place}: is not JSON: {where}{error.message}") from None
    return _checked(value, place)


def _checked(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("resourceType"), str):
        raise UserError(f"{place}: is not a FHIR resource (an object with a resourceType)")
    return value


def _entries(bundle: Mapping[str, Any], place: str) -> Iterator[Read]:
    entries = bundle.get("entry") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UserError(f"{place}: the Bundle's entry is not a list of objects")
    resources = [_entry(entry, f"{place}, entry {number}") for number, entry in enumerate(entries, 1)]
    names = {
        entry["fullUrl"]: _name(resource)
        for entry, resource in zip(entries, resources, strict=True)
        if isinstance(entry.get("fullUrl"), str)
    }
    for number, resource in enumerate(resources, 1):
        yield Read(rewrite_references(compact(render(resource)), names), f"{place}, entry {number}")


def _entry(entry: Mapping[str, Any], place: str) -> dict[str, Any]:
    """An entry's resource; if it has no id, it gets the id of its request's URL or of its full URL."""
    request = entry.get("request")
    method = request.get("method", "POST") if isinstance(request, dict) else "POST"
    if "resource" not in entry or method not in ("POST", "PUT"):
        raise UserError(f"{place}: is a {method} without a resource to import" if request else f"{place}: no resource")
    resource = _checked(entry["resource"], place)
    if "id" in resource:
        return resource
    url = request.get("url", "") if isinstance(request, dict) else ""
    kind, _, identity = str(url).partition("/")
    full_url = str(entry.get("fullUrl", ""))
    if kind == resource["resourceType"] and identity:
        resource_id = identity
    elif full_url.startswith(_UUID):
        resource_id = full_url.removeprefix(_UUID)
    else:
        raise UserError(f"{place}: {resource['resourceType']} lacks an id; so do its entry's request and fullUrl")
    return {"resourceType": resource["resourceType"], "id": resource_id, **resource}
