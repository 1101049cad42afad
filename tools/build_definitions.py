"""Packs the server's definitions of FHIR R4 into fhir_server/definitions/: types, code lists, search parameters.

    npm pack hl7.fhir.r4.examples@4.0.1 && tar xzf hl7.fhir.r4.examples-4.0.1.tgz
    python tools/build_definitions.py package

The source is HL7's own package (CC0). Each output is a gzip file of plain lines, sorted, without a time stamp, so that
the same package gives the same bytes. The formats are described in fhir_server/definitions/__init__.py, which reads
them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parent.parent / "fhir_server" / "definitions"
# Bindings whose lists are too long or not FHIR's own, which HAPI therefore keeps as plain codes.
OPEN_BINDINGS = {"FHIRAllTypes", "FHIRDefinedType", "ResourceType", "MimeType", "CurrencyCode"}
Json = dict[str, Any]


def read_all(package: Path, kind: str) -> Iterator[Json]:
    """Every resource of `kind` in the unpacked npm package, in order of file name."""
    for path in sorted(package.glob(f"{kind}-*.json")):
        yield json.loads(path.read_text("utf-8"))


def extension(element: Json, name: str) -> str | None:
    """The value of the extension whose url ends in `name`."""
    for item in element.get("extension", ()):
        if item["url"].endswith(name):
            return next(str(value) for key, value in item.items() if key.startswith("value"))
    return None


def type_code(entry: Json) -> str:
    """A type as an element declares it; FHIRPath system types become the FHIR type they stand for."""
    code: str = entry["code"]
    return (extension(entry, "structuredefinition-fhir-type") or "string") if "fhirpath" in code else code


def element_types(element: Json, children: set[str]) -> str:
    """The types of an element joined by `|`; a reference carries its targets, a backbone its own path."""
    path: str = element["path"]
    if "contentReference" in element:
        return str(element["contentReference"]).lstrip("#")
    if path in children:
        return path
    names = []
    for entry in element["type"]:
        targets = sorted({url.rpartition("/")[2] for url in entry.get("targetProfile", ())})
        code = type_code(entry)
        names.append(f"{code}({','.join(targets)})" if code == "Reference" and targets else code)
    return "|".join(names)


def type_lines(package: Path) -> Iterator[str]:
    """One line a type: its name, `R` for a resource or `D` for a data type, and its elements in R4's order."""
    for definition in read_all(package, "StructureDefinition"):
        if definition["kind"] not in ("resource", "complex-type") or definition.get("derivation") == "constraint":
            continue
        elements = definition["snapshot"]["element"]
        parents = {element["path"].rpartition(".")[0] for element in elements}
        rows: dict[str, list[str]] = {}
        for element in elements[1:]:
            parent, _, name = element["path"].rpartition(".")
            # A resource's id is an `id`, an element's id a plain string: R4 tells them apart by the base only.
            types = "id" if element["base"]["path"] == "Resource.id" else element_types(element, parents)
            if element["path"] == "Parameters.parameter.value[x]":
                types += "|Extension"  # not R4's, but HAPI reads it: a FHIRPath patch adds extensions so
            binding = bound_list(element)
            rows.setdefault(parent, []).append(
                f"{name}{'*' if element['max'] not in ('0', '1') else ''}:{types}{f'={binding}' if binding else ''}"
            )
        kind = "R" if definition["kind"] == "resource" else "D"
        for name, fields in rows.items():
            yield f"{name}\t{kind if name == definition['name'] else 'D'}\t{' '.join(fields)}"


def flag_lines(package: Path) -> Iterator[str]:
    """One line a type: its name, and for each element `s` (in summaries), `r` (required), `b` (both) or `-`."""
    for definition in read_all(package, "StructureDefinition"):
        if definition["kind"] not in ("resource", "complex-type") or definition.get("derivation") == "constraint":
            continue
        rows: dict[str, str] = {}
        for element in definition["snapshot"]["element"][1:]:
            parent = element["path"].rpartition(".")[0]
            flag = "-srb"[bool(element.get("isSummary")) + 2 * (element["min"] > 0)]
            rows[parent] = rows.get(parent, "") + flag
        for name, flags in rows.items():
            yield f"{name}\t{flags}"


def bound_list(element: Json) -> str | None:
    """The name of the closed code list an element is bound to, as HAPI's enumeration is called."""
    binding = element.get("binding")
    if not binding or binding["strength"] != "required" or [t["code"] for t in element["type"]] != ["code"]:
        return None
    name = extension(binding, "elementdefinition-bindingName")
    if name is None or name in OPEN_BINDINGS:
        return None
    return "".join(part[0].upper() + part[1:] for part in name.split("-"))


def concepts(items: list[Json]) -> Iterator[str]:
    """The codes of a code system, nested ones included."""
    for item in items:
        yield item["code"]
        yield from concepts(item.get("concept", []))


def value_set_codes(value_set: Json, systems: Mapping[str, Json]) -> Iterator[str]:
    """A column for each code system of a value set: the system and the codes listed of it, or all of them."""
    for include in value_set["compose"]["include"]:
        listed = include.get("concept") or systems.get(include["system"], {}).get("concept", [])
        yield " ".join(dict.fromkeys([include["system"], *concepts(listed)]))


def code_lines(package: Path) -> Iterator[str]:
    """One line a code list: its name, then the codes by code system."""
    systems = {system["url"]: system for system in read_all(package, "CodeSystem")}
    value_sets = {value_set["url"]: value_set for value_set in read_all(package, "ValueSet")}
    lists: dict[str, str] = {}
    for definition in read_all(package, "StructureDefinition"):
        if definition.get("derivation") == "constraint":
            continue
        for element in definition.get("snapshot", {}).get("element", ()):
            name = bound_list(element) if "type" in element else None
            if name:
                value_set = value_sets[element["binding"]["valueSet"].partition("|")[0]]
                lists[name] = "\t".join(value_set_codes(value_set, systems))
    for name in sorted(lists):
        yield f"{name}\t{lists[name]}"


def constraint_lines(package: Path) -> Iterator[str]:
    """One line an invariant: the path of the element that declares it, its key, severity, words and FHIRPath."""
    for definition in read_all(package, "StructureDefinition"):
        if definition["kind"] in ("resource", "complex-type") and definition.get("derivation") != "constraint":
            for element in definition["differential"]["element"]:
                for constraint in element.get("constraint", ()):
                    expression = constraint.get("expression", "").replace("\n", " ")
                    yield "\t".join(
                        [element["path"], constraint["key"], constraint["severity"], constraint["human"], expression]
                    )


def binding_lines(package: Path) -> Iterator[str]:
    """One line an element whose codes are bound: its path, the strength, the URL of the value set and, where even an
    extensible binding is limited, of the largest value set.
    """
    for definition in read_all(package, "StructureDefinition"):
        if definition["kind"] not in ("resource", "complex-type") or definition.get("derivation") == "constraint":
            continue
        for element in definition["snapshot"]["element"]:
            binding = element.get("binding", {})
            if binding.get("strength") in ("required", "extensible") and "valueSet" in binding:
                limit = extension(binding, "elementdefinition-maxValueSet") or ""
                urls = (url.partition("|")[0] for url in (binding["valueSet"], limit))
                yield "\t".join([element["path"], binding["strength"], *urls])


def terminology_lines(package: Path) -> Iterator[str]:
    """One line a code system or value set of HL7's: its URL, and what is needed of it as FHIR JSON."""
    keys = ("resourceType", "url", "version", "name", "title", "status", "content", "caseSensitive", "compose")
    for kind in ("CodeSystem", "ValueSet"):
        for resource in read_all(package, kind):
            if resource["url"].rpartition("/")[2].startswith("example"):
                continue
            entry = {key: resource[key] for key in keys if key in resource}
            if "concept" in resource:
                entry["concept"] = named(resource["concept"])
            yield f"{resource['url']}\t{json.dumps(entry, ensure_ascii=False, separators=(',', ':'))}"


def named(items: list[Json]) -> list[Json]:
    """Concepts with their codes, displays and inner concepts alone."""
    return [
        {
            key: named(item[key]) if key == "concept" else item[key]
            for key in ("code", "display", "concept")
            if key in item
        }
        for item in items
    ]


def parameter_lines(package: Path) -> Iterator[str]:
    """One line a search parameter and base type: base, code, kind, targets, expression, codes of the components."""
    parameters = {parameter["url"]: parameter for parameter in read_all(package, "SearchParameter")}
    for parameter in filter(is_built_in, parameters.values()):
        parts = [parameters[part["definition"]]["code"] for part in parameter.get("component", ())]
        for base in parameter.get("base", ()):
            expression = expression_for(base, parameter.get("expression", ""))
            targets = ",".join(parameter.get("target", ()))
            yield "\t".join([base, parameter["code"], parameter["type"], targets, expression, *parts])


def is_built_in(parameter: Json) -> bool:
    """Whether the parameter is part of HAPI without configuration. Examples, parameters on extensions and named queries
    are not.
    """
    if parameter["id"].startswith("example"):
        return False
    expression = parameter.get("expression", "")
    return "xtension(" not in expression and (bool(expression) or parameter["code"] in ("_content", "_text"))


def expression_for(base: str, expression: str) -> str:
    """The alternatives of a union that speak of `base` (all of them if none mentions a type)."""
    alternatives = [part.strip() for part in expression.split(" | ")]
    matching = [part for part in alternatives if part.lstrip("(").split(".")[0].split(" ")[0] == base]
    return " | ".join(matching or alternatives)


def write(name: str, lines: Iterator[str]) -> None:
    """Write the sorted lines as a gzip file without a time stamp."""
    text = "\n".join(sorted(set(lines))) + "\n"
    (OUTPUT / name).write_bytes(gzip.compress(text.encode("utf-8"), 9, mtime=0))


def main() -> None:
    """Build the files from the unpacked package named on the command line."""
    parser = argparse.ArgumentParser(description="Pack the FHIR R4 definitions the server needs.")
    parser.add_argument("package", type=Path, help="the folder that hl7.fhir.r4.examples-4.0.1.tgz unpacks to")
    package = parser.parse_args().package
    write("types.txt.gz", type_lines(package))
    write("flags.txt.gz", flag_lines(package))
    write("codes.txt.gz", code_lines(package))
    write("parameters.txt.gz", parameter_lines(package))
    write("constraints.txt.gz", constraint_lines(package))
    write("bindings.txt.gz", binding_lines(package))
    text = "\n".join(sorted(set(terminology_lines(package)))) + "\n"
    packed = lzma.compress(text.encode("utf-8"), lzma.FORMAT_XZ, lzma.CHECK_CRC32, lzma.PRESET_EXTREME | 9)
    (OUTPUT / "terminology.txt.xz").write_bytes(packed)


if __name__ == "__main__":
    main()
