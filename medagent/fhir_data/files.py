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
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from fhir_server.wire.json_text import compact, decode, render
from fhir_server.wire.json_values import JsonTextError
from medagent.core.errors import UserError
from refsol.files import LONGEST_LINE, TooLargeError, lines_within

CARRIERS = frozenset({"transaction", "batch", "collection", "searchset"})
"""Bundle types that only carry resources; a document, a message or a history is a resource itself."""

# A quote inside a JSON text is escaped, so this never matches within a value.
_REFERENCE = re.compile(r'("reference"\s*:\s*")([^"\\]+)"')
_REFERRED = re.compile(r'"reference"\s*:\s*"([^"\\]+)"')
_CONDITIONAL = re.compile(r"([A-Z][A-Za-z]+)\?identifier=([^&]+)")
_UUID = "urn:uuid:"


class ResourceLine(NamedTuple):
    """One resource as a line of JSON, and its place in the file, for messages."""

    line: str
    place: str

    @property
    def references(self) -> list[str]:
        """The references of the resource, as written."""
        return _REFERRED.findall(self.line)


def read_resources(
    paths: Sequence[Path], fault: Callable[[str], None] | None = None, longest: int = LONGEST_LINE
) -> Iterator[ResourceLine]:
    """Every resource in the files, in the order of the files; decimals keep their digits. A line of NDJSON, or a whole
    document, may have `longest` bytes.

    Raises UserError, with file and place, if a file is not readable, not UTF-8, not JSON, or not a resource, or if a
    conditional reference matches two resources. With `fault`, that function gets the message instead, and reading
    continues with the next file.
    """
    identifiers = _Identifiers(paths, longest)
    for path in paths:
        try:
            for read in _file(path, longest):
                yield identifiers.resolve(read)
        except UserError as error:
            if fault is None:
                raise
            fault(str(error))


def chart_lines(text: str, place: str) -> str:
    """The chart in a text as NDJSON: the resources of a Bundle, or the text itself if it is NDJSON.

    Raises UserError, with `place`, for a Bundle that cannot be split.
    """
    first, _, more = text.strip().partition("\n")
    if more and _is_object(first):
        return text
    return "\n".join(read.line for read in _document(text, place))


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

    def __init__(self, paths: Sequence[Path], longest: int) -> None:
        self._paths = paths
        self._longest = longest

    def resolve(self, read: ResourceLine) -> ResourceLine:
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
        return ResourceLine(rewrite_references(read.line, names), read.place) if names else read

    @cached_property
    def _known(self) -> dict[tuple[str, str], set[str]]:
        """References by type and identifier: `system|value`, and `value` for any system."""
        known: dict[tuple[str, str], set[str]] = {}
        for read in chain.from_iterable(_file(path, self._longest) for path in self._paths):
            resource = _resource(read.line, read.place)
            identifiers = resource.get("identifier")
            for identifier in identifiers if isinstance(identifiers, list) else [identifiers]:
                if isinstance(identifier, dict) and "value" in identifier and "id" in resource:
                    for text in (f"{identifier.get('system', '')}|{identifier['value']}", str(identifier["value"])):
                        known.setdefault((resource["resourceType"], text), set()).add(_name(resource))
        return known


def _name(resource: Mapping[str, Any]) -> str:
    return f"{resource['resourceType']}/{resource['id']}"


def _file(path: Path, longest: int) -> Iterator[ResourceLine]:
    try:
        with _open(path) as file:
            lines = _texts(file, longest)
            first, second = next(lines, None), next(lines, None)
            if first is None:
                raise UserError(f"{path}: is empty")
            if second is not None and _is_object(first[1]):
                name = str(path)
                for number, line in chain((first, second), lines):
                    yield _line(line, f"{name}:{number}")
            else:
                file.seek(0)
                yield from _document(_whole(file, path, longest), str(path))
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except TooLargeError as error:
        raise UserError(f"{path}:{error.line}: {error}; {_RAISE}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}:{_first_not_utf8(path)}: is not UTF-8 ({error.reason})") from None


_RAISE = "if the file is right, import it: medagent ehr import FILE --data NEW.sqlite --max-line MB"
_BOM = b"\xef\xbb\xbf"


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _texts(file: BinaryIO, longest: int) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their numbers. Raises UnicodeDecodeError, TooLargeError."""
    # Lines end at \n only: a JSON string may contain the other line ends that Python knows.
    for number, line in enumerate(lines_within(file, longest), 1):
        if text := (line.removeprefix(_BOM) if number == 1 else line).decode().strip():
            yield number, text


def _whole(file: BinaryIO, path: Path, longest: int) -> str:
    content = file.read(longest + 1)
    if len(content) > longest:
        raise UserError(f"{path}: is a document of more than {longest:,} bytes; {_RAISE}")
    return content.removeprefix(_BOM).decode()


def _first_not_utf8(path: Path) -> int:
    with _open(path) as file:
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


def _line(line: str, place: str) -> ResourceLine:
    """An NDJSON line, unchanged unless it escapes slashes, as some programs do: that would hide references."""
    return ResourceLine(compact(render(_resource(line, place))) if "\\/" in line else line, place)


def _document(text: str, place: str) -> Iterator[ResourceLine]:
    resource = _resource(text, place)
    if resource["resourceType"] == "Bundle" and resource.get("type") in CARRIERS:
        yield from _entries(resource, place)
    else:
        yield ResourceLine(compact(render(resource)), place)


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


def _entries(bundle: Mapping[str, Any], place: str) -> Iterator[ResourceLine]:
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
        yield ResourceLine(rewrite_references(compact(render(resource)), names), f"{place}, entry {number}")


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
