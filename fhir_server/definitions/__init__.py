"""FHIR R4's definitions: types, code lists, search parameters and so on, packed by tools/build_definitions.py.

The files contain tab-separated lines. Each is read once and split by name; a line is parsed at the first use of its
type:

* types: name, `R` (resource) or `D` (data type), elements as `name[*]:type[|type …][=code list]`, `*` for a list and
  `Reference(Target,…)` for a reference;
* flags: name, and for each element of the type `s` (in summaries), `r` (required), `b` (both) or `-`;
* codes: name of a code list, then for each code system its url and the codes;
* parameters: base type, code, kind, targets, FHIRPath, then the codes of a composite's components;
* constraints: path of an element, key, severity, text and FHIRPath of an invariant;
* bindings: path of an element, strength, URL of the value set, and URL of the largest one allowed, if there is one;
* terminology: URL, then a CodeSystem or ValueSet as JSON, reduced to the members that the server uses.
"""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class ElementType:
    """One of an element's possible types; `targets` are the types that a reference may point to (empty: any)."""

    name: str
    targets: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a type: `name` ends in `[x]` for a choice, `codes` is the name of its closed code list."""

    name: str
    many: bool
    types: tuple[ElementType, ...]
    codes: str | None = None

    @property
    def stem(self) -> str:
        """The name without `[x]`."""
        return self.name.removesuffix("[x]")

    @property
    def is_choice(self) -> bool:
        """Whether the JSON key contains the type, as `valueQuantity` does for `value[x]`."""
        return self.name.endswith("[x]")

    def key(self, declared: ElementType) -> str:
        """The JSON key that holds a value of one of the element's types."""
        return self.stem + declared.name[0].upper() + declared.name[1:] if self.is_choice else self.name


class Field(NamedTuple):
    """A JSON key of a type: its element, which all keys of a choice share, and the type of its value."""

    element: Element
    type_name: str


@dataclass(frozen=True, slots=True)
class ParameterLine:
    """The definition of a search parameter; `components` are the codes of the parameters that a composite joins."""

    name: str
    kind: str
    targets: tuple[str, ...]
    expression: str
    components: tuple[str, ...]


def _read(name: str) -> list[str]:
    return gzip.decompress((FOLDER / name).read_bytes()).decode("utf-8").splitlines()


@cache
def _types() -> dict[str, tuple[str, str]]:
    rows = (line.split("\t") for line in _read("types.txt.gz"))
    return {name: (kind, fields) for name, kind, fields in rows}


def is_primitive(type_name: str) -> bool:
    """Whether values of the type are JSON scalars: only their names begin with a small letter in R4."""
    return type_name[0].islower()


@cache
def resource_types() -> tuple[str, ...]:
    """The names of R4's concrete resource types, sorted."""
    abstract = {"Resource", "DomainResource"}
    return tuple(name for name, (kind, _) in _types().items() if kind == "R" and name not in abstract)


def is_resource_type(name: str) -> bool:
    """Whether `name` is one of R4's concrete resource types."""
    return _types().get(name, ("", ""))[0] == "R" and name not in ("Resource", "DomainResource")


@cache
def elements(type_name: str) -> tuple[Element, ...]:
    """The elements of a type in R4's order. A backbone element's type is its path.

    Raises:
        KeyError: the type is not in R4.
    """
    return tuple(_element(field) for field in _types()[type_name][1].split(" "))


@cache
def fields(type_name: str) -> Mapping[str, Field]:
    """The JSON keys of a type.

    Raises:
        KeyError: the type is not in R4.
    """
    return {
        element.key(declared): Field(element, declared.name)
        for element in elements(type_name)
        for declared in element.types
    }


@cache
def stems() -> Mapping[str, str]:
    """The name of each choice of R4 without `[x]`, by its JSON keys."""
    listed = (element for name in _types() for element in elements(name) if element.is_choice)
    return {element.key(declared): element.stem for element in listed for declared in element.types}


@cache
def _flags() -> dict[str, str]:
    return dict(line.split("\t") for line in _read("flags.txt.gz"))


def summary_flags(type_name: str) -> tuple[tuple[Element, bool, bool], ...]:
    """The elements of a type, each with whether it belongs to summaries and whether it is required.

    Raises:
        KeyError: the type is not in R4.
    """
    flags = zip(elements(type_name), _flags()[type_name], strict=True)
    return tuple((element, flag in "sb", flag in "rb") for element, flag in flags)


def _element(field: str) -> Element:
    name, _, rest = field.partition(":")
    types, _, codes = rest.partition("=")
    return Element(
        name=name.removesuffix("*"),
        many=name.endswith("*"),
        types=tuple(_element_type(text) for text in types.split("|")),
        codes=codes or None,
    )


def _element_type(text: str) -> ElementType:
    name, _, targets = text.rstrip(")").partition("(")
    listed = frozenset(targets.split(",")) if targets and targets != "Resource" else frozenset[str]()
    return ElementType(name, listed)


@cache
def _code_lines() -> dict[str, str]:
    return {name: columns for name, _, columns in (line.partition("\t") for line in _read("codes.txt.gz"))}


@cache
def codes(name: str) -> Mapping[str, str]:
    """The codes of a closed list, each with its code system; `name` is HAPI's name (`AdministrativeGender`)."""
    columns = (column.split(" ") for column in _code_lines()[name].split("\t"))
    return {code: system for system, *listed in columns for code in listed}


@dataclass(frozen=True, slots=True)
class Constraint:
    """An invariant: its key, severity (`error` or `warning`), HL7's text, and the FHIRPath that must be true."""

    path: str
    key: str
    severity: str
    human: str
    expression: str


@cache
def _constraints() -> dict[str, list[Constraint]]:
    by_path: dict[str, list[Constraint]] = {}
    for line in _read("constraints.txt.gz"):
        constraint = Constraint(*line.split("\t"))
        by_path.setdefault(constraint.path, []).append(constraint)
    return by_path


def constraints(path: str) -> list[Constraint]:
    """The invariants that R4 declares for a type or for the path of an element."""
    return _constraints().get(path, [])


@dataclass(frozen=True, slots=True)
class Binding:
    """The value set for the codes of an element; `strength` is `required` or `extensible`."""

    strength: str
    value_set: str
    largest: str


@cache
def _bindings() -> dict[str, Binding]:
    rows = (line.split("\t") for line in _read("bindings.txt.gz"))
    return {path: Binding(*rest) for path, *rest in rows}


def binding(path: str) -> Binding | None:
    """The binding of an element (or of a whole type) by its path; None if there is none or it is only recommended."""
    return _bindings().get(path)


@cache
def terminology() -> Mapping[str, list[str]]:
    """HL7's code systems and value sets as JSON texts, by URL; some URLs have one of each."""
    text = lzma.decompress((FOLDER / "terminology.txt.xz").read_bytes()).decode("utf-8")
    by_url: dict[str, list[str]] = {}
    for line in text.splitlines():
        url, _, resource = line.partition("\t")
        by_url.setdefault(url, []).append(resource)
    return by_url


@cache
def _parameter_lines() -> dict[str, list[str]]:
    by_base: dict[str, list[str]] = {}
    for line in _read("parameters.txt.gz"):
        base, _, rest = line.partition("\t")
        by_base.setdefault(base, []).append(rest)
    return by_base


def parameter_lines(base: str) -> list[ParameterLine]:
    """The search parameters defined on exactly this base type (`Resource` and `DomainResource` are bases too)."""
    return [_parameter(line) for line in _parameter_lines().get(base, ())]


def _parameter(line: str) -> ParameterLine:
    name, kind, targets, expression, *components = line.split("\t")
    return ParameterLine(name, kind, tuple(filter(None, targets.split(","))), expression, tuple(components))
