from __future__ import annotations

import gzip
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz

from refsol.errors import InputError
from refsol.imapscore.graph import Entity, EntityGraph, Linker, differ
from refsol.imapscore.imap import Imap, TermValue
from refsol.imapscore.ontologies import load_graph
from refsol.imapscore.relations import Graph, Recorded, Relation, RelationFinder, ValuePair, find_relations

BUNDLED = Path(str(files("refsol.imapscore") / "data" / "graph.tsv"))

OBO = """format-version: 1.2
ontology: test

[Term]
id: T:1
name: entity

[Term]
id: T:2
name: infection
is_a: T:1 ! entity

[Term]
id: T:3
name: influenza
synonym: "flu" EXACT []
synonym: "the \\"flu\\"" EXACT []
synonym: "grippe like illness" RELATED []
is_a: T:2 ! infection

[Term]
id: T:4
name: old thing
is_obsolete: true
"""

MESH = """<?xml version="1.0"?>
<DescriptorRecordSet>
  <DescriptorRecord>
    <DescriptorUI>D1</DescriptorUI><DescriptorName><String>Neoplasms</String></DescriptorName>
    <TreeNumberList><TreeNumber>C04</TreeNumber></TreeNumberList>
  </DescriptorRecord>
  <DescriptorRecord>
    <DescriptorUI>D2</DescriptorUI><DescriptorName><String>Cysts</String></DescriptorName>
    <TreeNumberList><TreeNumber>C04.182</TreeNumber><TreeNumber>C05.1</TreeNumber></TreeNumberList>
    <ConceptList>
      <Concept PreferredConceptYN="Y"><TermList><Term><String>Cysts</String></Term><Term><String>Cyst</String></Term>
      </TermList></Concept>
      <Concept PreferredConceptYN="N"><TermList><Term><String>Lump</String></Term></TermList></Concept>
    </ConceptList>
  </DescriptorRecord>
  <DescriptorRecord>
    <DescriptorUI>D3</DescriptorUI><DescriptorName><String>Bone Cysts</String></DescriptorName>
    <TreeNumberList><TreeNumber>C04.182.089</TreeNumber></TreeNumberList>
  </DescriptorRecord>
  <DescriptorRecord>
    <DescriptorUI>D4</DescriptorUI><DescriptorName><String>Female</String></DescriptorName>
  </DescriptorRecord>
</DescriptorRecordSet>
"""


def relation(finder: RelationFinder, label: str, response: str) -> Relation | None:
    pair = ValuePair("t", label, response)
    return finder.find([pair]).get(pair)


@pytest.fixture(scope="module")
def bundled() -> Graph:
    return Graph(Linker(load_graph(BUNDLED)))


@pytest.mark.parametrize(
    ("label", "response", "expected"),
    [
        ("hypertension", "HTN", Relation.EXACT),
        ("高血压", "Hypertension.", Relation.EXACT),
        ("penicillin", "antibiotic therapy", Relation.BELONGING),
        ("antibiotic therapy", "penicillin", Relation.CONTAINMENT),
        ("amoxicillin", "antibiotics", Relation.BELONGING),
        ("急性咽炎", "上呼吸道感染", Relation.BELONGING),
        ("exercise induced asthma", "asthma", Relation.BELONGING),
        ("nephritis", "glomerulonephritis", Relation.CONTAINMENT),
        ("type 1 diabetes mellitus", "type 2 diabetes mellitus", None),
        ("penicillin", "drug", Relation.BELONGING),
        ("penicillin", "entity", None),
        ("asthma", "pharyngitis", None),
        ("asthma", "a thing unknown", None),
    ],
)
def test_bundled_graph(bundled: Graph, label: str, response: str, expected: Relation | None) -> None:
    assert relation(bundled, label, response) is expected


def test_bundled_graph_is_whole(bundled: Graph) -> None:
    graph = bundled.linker.graph
    assert not graph.warnings
    assert len(graph.entities) in range(28, 36)


@pytest.mark.parametrize(
    ("value", "linked"),
    [
        ("type 2 diabetes mellitus", "type 2 diabetes mellitus"),
        ("type 2 diabetes melitus", "type 2 diabetes mellitus"),
        ("type 1 diabetes mellitus", None),
        ("type II diabetes mellitus", None),
        ("hepatitis C virus infection", None),
        ("hepatitis viral infection", None),
        ("hepatitis B virus infections", "hepatitis B virus infection"),
        ("typical hemolytic uremic syndrome", None),
        ("atypical haemolytic uremic syndrome", "atypical hemolytic uremic syndrome"),
        ("secondary hypoparathyroidism", None),
        ("secondary hyperparathyroidismus", "secondary hyperparathyroidism"),
        ("non-alcoholic fatty liver disease", None),
    ],
)
def test_alike_names_link_unless_they_differ_in_what_matters(value: str, linked: str | None) -> None:
    names = [
        "type 2 diabetes mellitus",
        "hepatitis B virus infection",
        "atypical hemolytic uremic syndrome",
        "secondary hyperparathyroidism",
        "alcoholic fatty liver disease",
    ]
    linker = Linker(EntityGraph([Entity(name, (name,)) for name in names]), threshold=90)
    assert linker.link(value) == ({linked} if linked else frozenset())


def test_the_threshold_decides_what_is_alike() -> None:
    graph = EntityGraph([Entity("1", ("myocardial infarction",))])
    assert Linker(graph).link("myocardial infarctions") == {"1"}
    assert Linker(graph, threshold=99).link("myocardial infarctions") == frozenset()
    assert Linker(graph).link("infarction") == frozenset()


_letters = st.text(alphabet="bcde", min_size=1, max_size=24)


@given(st.lists(_letters, min_size=1, max_size=8, unique=True), st.data(), st.sampled_from([40, 80, 90, 95, 100]))
def test_no_alike_name_is_overlooked(names: list[str], data: st.DataObject, threshold: int) -> None:
    name = data.draw(st.sampled_from(names))
    place, end = (data.draw(st.integers(0, len(name))) for _ in range(2))
    value = data.draw(st.sampled_from([name[:place] + data.draw(_letters) + name[end:], data.draw(_letters)]))
    alike = [(-fuzz.ratio(value, known), known) for known in names if fuzz.ratio(value, known) >= threshold]
    linker = Linker(EntityGraph([Entity(known, (known,)) for known in names]), threshold)
    allowed = [known for _, known in sorted(alike) if not differ(value, known)]
    assert linker.link(value) == frozenset([value] if value in names else allowed[:1])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("stage 2", "stage 3"),
        ("stage ii", "stage iii"),
        ("stage 2 grade 3", "stage 3 grade 2"),
        ("hepatitis b", "hepatitis c"),
        ("fever", "no fever"),
        ("small cell", "non-small cell"),
        ("感染", "无感染"),
        ("hyperkalaemia", "hypokalaemia"),
        ("高血压", "低血压"),
        ("symptomatic stenosis", "asymptomatic stenosis"),
        ("stable angina", "unstable angina"),
        ("一度烧伤", "二度烧伤"),
    ],
)
def test_differences_that_matter(first: str, second: str) -> None:
    assert differ(first, second)
    assert differ(second, first)


@pytest.mark.parametrize(("first", "second"), [("crohn's disease", "crohns disease"), ("anaemia", "anemia")])
def test_differences_that_do_not(first: str, second: str) -> None:
    assert not differ(first, second)


def test_ancestors_stop_at_five_steps_and_before_roots() -> None:
    chain = [Entity("0", ("n0",))] + [Entity(str(i), (f"n{i}",), (str(i - 1),)) for i in range(1, 9)]
    graph = EntityGraph(chain)
    assert graph.ancestors(["8"]) == {"7", "6", "5", "4", "3"}
    assert graph.ancestors(["3"]) == {"2", "1"}
    assert graph.ancestors(["0"]) == frozenset()


def test_a_name_of_two_entities_links_to_both() -> None:
    entities = [
        Entity("root", ("root",)),
        Entity("top", ("illness",), ("root",)),
        Entity("c1", ("cold",), ("top",)),
        Entity("c2", ("cold", "low temperature"), ("root",)),
    ]
    graph = Graph(Linker(EntityGraph(entities)))
    assert relation(graph, "cold", "illness") is Relation.BELONGING
    assert relation(graph, "cold", "low temperature") is Relation.EXACT


def test_a_cycle_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "g.tsv"
    path.write_text("a\tb\nb\tc\nc\ta\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"g\.tsv: is_a runs in a cycle: a → b → c → a"):
        load_graph(path)
    path.write_text("a\ta\n", encoding="utf-8")
    with pytest.raises(InputError, match="a → a"):
        load_graph(path)


def test_a_dangling_parent_is_left_out_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "g.obo"
    path.write_text(OBO.replace("is_a: T:2 ! infection", "is_a: T:9"), encoding="utf-8")
    graph = load_graph(path)
    assert graph.parents["T:3"] == ()
    assert graph.warnings == [f"{path}: T:3 is_a T:9, which is not in the graph: left out"]


def test_obo(tmp_path: Path) -> None:
    path = tmp_path / "g.obo"
    path.write_text(OBO, encoding="utf-8")
    graph = load_graph(path)
    assert graph.entities["T:3"].names == ("influenza", "flu", 'the "flu"')
    assert set(graph.entities) == {"T:1", "T:2", "T:3"}
    assert relation(Graph(Linker(graph)), "flu", "infection") is Relation.BELONGING


@pytest.mark.parametrize("suffix", ["xml", "xml.gz"])
def test_mesh(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"desc.{suffix}"
    path.write_bytes(gzip.compress(MESH.encode()) if suffix.endswith("gz") else MESH.encode())
    graph = load_graph(path)
    assert graph.by_name["cyst"] == graph.by_name["cysts"] == {"C04.182", "C05.1"}
    assert "lump" not in graph.by_name
    assert graph.by_name["female"] == {"D4"}
    assert relation(Graph(Linker(graph)), "bone cysts", "cyst") is Relation.BELONGING
    assert relation(Graph(Linker(graph)), "bone cysts", "neoplasms") is None  # a root
    assert graph.warnings == [f"{path}: C05.1 is_a C05, which is not in the graph: left out"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.tsv", "a\tb\nonly one\n", r"g\.tsv:2: 1 columns"),
        ("g.tsv", "a\t\n", r"g\.tsv:1: an empty name"),
        ("g.tsv", "a\tb\nc\tb\na|c\tb\n", r"g\.tsv:3: .* joins separate entities"),
        ("g.xml", "<a><b></a>", r"g\.xml: is not MeSH XML"),
        ("g.obo", "[Term]\nid T:1\n", r"g\.obo: is not an OBO file"),
        ("g.csv", "a,b", r"g\.csv: unknown kind of graph file"),
        ("g.tsv.gz", "a\tb", r"g\.tsv\.gz: cannot be read"),
        ("g.tsv", None, r"g\.tsv: cannot be read"),
    ],
)
def test_graphs_that_cannot_be_read(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_graph(path)


def test_a_chain_goes_on_where_the_graph_is_silent(bundled: Graph) -> None:
    recorded = Recorded(
        {
            ValuePair("t", "penicillin", "antibiotics"): Relation.UNMATCHED,
            ValuePair("t", "asthma", "wheeze"): Relation.BELONGING,
            ValuePair("t", "asthma", "pharyngitis"): Relation.CONTAINMENT,
            ValuePair("t", "asthma", "fever"): Relation.UNMATCHED,
        }
    )

    def related(first: str, second: str) -> Relation | None:
        pair = ValuePair("t", first, second)
        label, response = Imap(inform=(TermValue("t", first),)), Imap(inform=(TermValue("t", second),))
        return find_relations(label, response, [bundled, recorded]).get(pair)

    assert related("penicillin", "antibiotics") is Relation.BELONGING
    assert related("asthma", "wheeze") is Relation.BELONGING
    assert related("asthma", "pharyngitis") is Relation.CONTAINMENT
    assert related("asthma", "fever") is None
    assert related("asthma", "stroke") is None
