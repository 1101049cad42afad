"""Read entity graphs from OBO files, MeSH's descriptor XML, or TSV, plain or gzipped. The file name decides.

TSV: `narrower<TAB>broader`, one is_a edge per line. A cell contains a name and its exact synonyms, separated by `|`;
`#` starts a comment line. Each of an entity's names identifies it. In MeSH, an entity is a place in the tree: a
descriptor can be above another in one branch and below it in the next, and this is then not a cycle. Its names refer to
all its places.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree

from refsol.errors import InputError
from refsol.imapscore._extra import need
from refsol.imapscore.graph import Entity, EntityGraph
from refsol.imapscore.imap import normal

_EXACT_SYNONYM = re.compile(r'"((?:[^"\\]|\\.)*)"\s+EXACT\b')


def load_graph(path: Path) -> EntityGraph:
    """The graph in `path`. Raises InputError if the file cannot be read or its is_a edges contain a cycle."""
    loaders = {".obo": _obo, ".xml": _mesh, ".tsv": _tsv}
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in loaders:
        raise InputError(f"{path}: unknown kind of graph file; its name must end in .obo, .xml (MeSH) or .tsv")
    try:
        return EntityGraph(loaders[suffix](path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        yield file


def _obo(path: Path) -> Iterator[Entity]:
    with _open(path) as file:
        try:
            nodes = need("obonet").read_obo(file).nodes(data=True)
        except (ValueError, KeyError) as error:  # a line that is not a tag, a stanza without an id
            raise InputError(f"{path}: is not an OBO file: {' '.join(str(error).split())}") from error
    for id_, node in nodes:
        if "name" in node:  # obonet adds a node without a name for every undefined parent
            synonyms = (synonym[1] for text in node.get("synonym", ()) if (synonym := _EXACT_SYNONYM.match(text)))
            names = (node["name"], *(re.sub(r"\\(.)", r"\1", name) for name in synonyms))
            yield Entity(id_, names, tuple(node.get("is_a", ())))


def _mesh(path: Path) -> Iterator[Entity]:
    with _open(path) as file:
        try:
            for _, element in ElementTree.iterparse(file):
                if element.tag == "DescriptorRecord":
                    yield from _descriptor(element)
                    element.clear()
        except ElementTree.ParseError as error:
            raise InputError(f"{path}: is not MeSH XML: {error}") from error


def _descriptor(record: ElementTree.Element) -> Iterator[Entity]:
    """One entity per tree number. The tree number without its last part is the parent."""
    terms = record.iterfind("ConceptList/Concept[@PreferredConceptYN='Y']/TermList/Term/String")
    preferred = record.findtext("DescriptorName/String", "")
    names = tuple(dict.fromkeys([preferred, *(term.text or "" for term in terms)]))
    places = [place.text or "" for place in record.iterfind("TreeNumberList/TreeNumber")]
    for place in places or [record.findtext("DescriptorUI", preferred)]:
        parent = place.rpartition(".")[0]
        yield Entity(place, names, (parent,) if parent else ())


def _tsv(path: Path) -> Iterator[Entity]:
    names: dict[str, dict[str, None]] = {}  # by id: its names, in order
    ids: dict[str, str] = {}  # by normal name
    parents: dict[str, dict[str, None]] = {}

    def entity(cell: str, line: int) -> str:
        cell_names = [name.strip() for name in cell.split("|") if normal(name)]
        if not cell_names:
            raise InputError(f"{path}:{line}: an empty name; a line is `narrower<TAB>broader`")
        known = {ids[normal(name)] for name in cell_names if normal(name) in ids}
        if len(known) > 1:
            entities = ", ".join(sorted(known))
            raise InputError(f"{path}:{line}: {cell!r} joins separate entities ({entities}); name one")
        id_ = known.pop() if known else cell_names[0]
        names.setdefault(id_, {}).update(dict.fromkeys(cell_names))
        ids.update(dict.fromkeys(map(normal, cell_names), id_))
        return id_

    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.startswith("#"):
                cells = line.rstrip("\n").split("\t")
                if len(cells) != 2:
                    raise InputError(f"{path}:{number}: {len(cells)} columns; a line is `narrower<TAB>broader`")
                child, parent = entity(cells[0], number), entity(cells[1], number)
                parents.setdefault(child, {})[parent] = None
    for id_, all_names in names.items():
        yield Entity(id_, tuple(all_names), tuple(parents.get(id_, ())))
