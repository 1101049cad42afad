from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refsol.errors import InputError
from refsol.imapscore.imap import Imap, TermValue, normal, parse, serialise, tidy


def pairs(text: str, *terms: str) -> list[tuple[str, str]]:
    return [(pair.term, pair.value) for pair in parse(text, terms).imap.inform]


def test_three_components() -> None:
    text = "Query-disease-?\nConstraint-age-28\nInform-diagnosis-oral stomatitis with pharyngitis"
    parsed = parse(text, ["diagnosis"])
    assert parsed.imap == Imap(
        (TermValue("disease", "?"),),
        (TermValue("age", "28"),),
        (TermValue("diagnosis", "oral stomatitis with pharyngitis"),),
    )
    assert parsed.warnings == ()
    assert serialise(parsed.imap, ["diagnosis"]) == text


@pytest.mark.parametrize(
    "line",
    [
        "Inform-diagnosis-flu",
        "inform - diagnosis - flu",
        "INFORM—diagnosis——flu",
        "Inform－diagnosis－flu",
        "Inform−diagnosis──flu",
        "- Inform-diagnosis-flu",
        "* Inform-diagnosis-flu",
        "• Inform-diagnosis-flu",
        "1. Inform-diagnosis-flu",
        "(2) Inform-diagnosis-flu",
        "3、Inform-diagnosis-flu",
        "①Inform-diagnosis-flu",
        "- 1) Inform-diagnosis-flu",
        "> Inform-diagnosis-flu",
        "**Inform-diagnosis-flu**",
        "**Inform**-diagnosis-flu",
        "**Inform:** diagnosis: flu",
        "*Inform*-*diagnosis*-*flu*",
        "`Inform-diagnosis-flu`",
        "Inform: diagnosis: flu",
        "Inform：diagnosis：flu",
        "Inform: diagnosis-flu",
        "Ｉｎｆｏｒｍ-diagnosis-flu",
        "\tInform-diagnosis-flu\r",
    ],
)
def test_one_pair_in_many_hands(line: str) -> None:
    parsed = parse(line, ["diagnosis"])
    assert parsed.imap == Imap(inform=(TermValue("diagnosis", "flu"),))
    assert parsed.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Here is the imap you asked for.",
        "```\n```",
        "Information-diagnosis-flu",
        "I would inform-diagnosis-flu",
        "Informing: diagnosis: flu",
        "Inform diagnosis flu",
        "{}",
    ],
)
def test_other_lines_are_noise(text: str) -> None:
    assert parse(text, ["diagnosis"]) == parse("")


def test_prose_and_code_fences_around_pairs() -> None:
    text = "Sure! The imap:\n\n```text\nInform-diagnosis-flu\n```\nI hope that helps."
    assert pairs(text, "diagnosis") == [("diagnosis", "flu")]


@pytest.mark.parametrize(
    ("line", "term", "warnings"),
    [
        ("Query-disease-?", "disease", 0),
        ("Query-follow-up visit-?", "follow-up visit", 0),
        ("Query：疾病：？", "疾病", 0),
        ("Query - disease - ?", "disease", 0),
        ("Query-disease-?.", "disease", 0),
        ("Query-disease", "disease", 1),
        ("Query-follow-up", "follow-up", 1),
        ("Query-disease?", "disease", 1),
        ("Query-disease-? (the user asks)", "disease", 1),
    ],
)
def test_query_terms(line: str, term: str, warnings: int) -> None:
    parsed = parse(line)
    assert parsed.imap.query_terms == (term,)
    assert len(parsed.warnings) == warnings


def test_constraints_split_at_the_first_hyphen() -> None:
    parsed = parse("Constraint-blood type-Rh-\nConstraint-dose-5-10 mg\nConstraint-male")
    assert parsed.imap.constraint == (TermValue("blood type", "Rh-"), TermValue("dose", "5-10 mg"))
    assert len(parsed.warnings) == 1


def test_the_longest_query_term_that_fits_is_the_term() -> None:
    terms = ("follow", "follow-up", "treatment")
    assert pairs("Inform-follow-up-in 2-3 weeks", *terms) == [("follow-up", "in 2-3 weeks")]
    assert pairs("Inform-Follow - Up - soon", *terms) == [("follow-up", "soon")]
    assert pairs("Inform-follow-the doctor", *terms) == [("follow", "the doctor")]
    assert pairs("Inform: follow-up: 10:30", *terms) == [("follow-up", "10:30")]
    assert pairs("Inform-treatment-low-salt diet", *terms) == [("treatment", "low-salt diet")]


def test_a_term_must_end_at_a_separator() -> None:
    parsed = parse("Inform-diagnosis code-J10-1", ["diagnosis"])
    assert parsed.imap.inform == (TermValue("diagnosis code", "J10-1"),)
    assert len(parsed.warnings) == 1


def test_without_a_hyphen_the_only_query_term_is_used() -> None:
    parsed = parse("Inform-flu", ["diagnosis"])
    assert parsed.imap.inform == (TermValue("diagnosis", "flu"),)
    assert len(parsed.warnings) == 1
    for terms in ([], ["diagnosis", "treatment"]):
        dropped = parse("Inform-flu", terms)
        assert dropped.imap == Imap()
        assert len(dropped.warnings) == 1


@pytest.mark.parametrize("value", ["", " ", "?", "？", "[value]", "None", "NONE.", "N/A", "无", "没有", "没有。", "."])
@pytest.mark.parametrize("component", ["Inform", "Constraint"])
def test_absent_values_are_no_pairs(component: str, value: str) -> None:
    imap = parse(f"{component}-diagnosis-{value}", ["diagnosis"]).imap
    assert imap.inform == imap.constraint == ()


def test_inform_none() -> None:
    assert parse("Inform-None", ["diagnosis"]).imap == Imap(explicit_none=True)
    assert parse("Inform: 无").imap.explicit_none
    assert parse("Inform-None\nInform-diagnosis-flu").imap == Imap(inform=(TermValue("diagnosis", "flu"),))
    assert serialise(Imap(explicit_none=True)) == "Inform-None"
    assert not parse("").imap.explicit_none
    assert parse("Inform-diagnosis-None\nInform-treatment-无", ["diagnosis", "treatment"]) == parse("Inform-None")
    assert parse("Query-None\nConstraint-None") == parse("")


def test_values_are_compared_normalised_and_merged() -> None:
    text = "Inform-d-Flu.\nInform-D-ｆｌｕ；\nInform-d-  flu  \nInform-d-a, b and c\nInform-d-感冒。\nInform-d-感冒"
    assert pairs(text, "d") == [("d", "Flu."), ("d", "a, b and c"), ("d", "感冒。")]
    assert normal("STRASSE;") == normal("straße") == "strasse"


def test_asterisks_and_signs_inside_values_stay() -> None:
    assert pairs("Inform-gene-HLA-B*27 and HLA-B*57", "gene") == [("gene", "HLA-B*27 and HLA-B*57")]
    negative = Imap(inform=(TermValue("base excess", "-5"),))
    assert parse(serialise(negative), ["base excess"]).imap == negative


def test_every_warning_names_its_line() -> None:
    parsed = parse("noise\nQuery-disease\nInform-flu", [])
    assert [warning.split(":")[0] for warning in parsed.warnings] == ["line 2", "line 3"]


@pytest.mark.parametrize(
    "pair_lists",
    [
        {"query": (TermValue("disease", "flu"),)},
        {"query": (TermValue("", "?"),)},
        {"constraint": (TermValue("age", ""),)},
        {"inform": (TermValue("diagnosis", "None"),)},
        {"inform": (TermValue("-", "flu"),)},
    ],
)
def test_an_imap_refuses_what_its_text_cannot_hold(pair_lists: dict[str, tuple[TermValue, ...]]) -> None:
    with pytest.raises(InputError):
        Imap(**pair_lists)


_TEXT = st.text(st.sampled_from("aAbß1 -—:*_`?.;。,无é\u0301Ｑ/[]\n") | st.characters(), max_size=8)


@st.composite
def imaps(draw: st.DrawFn) -> tuple[Imap, list[str]]:
    """An imap of the text form's domain, and the Query terms it is read with."""

    def known(term: str) -> bool:
        return bool(normal(TermValue(term, "?").term)) and normal(term) not in (
            "none",
            "n/a",
            "无",
            "没有",
            "?",
            "[value]",
        )

    terms = draw(st.lists(_TEXT.map(tidy).filter(known).filter(lambda t: "-?" not in t.replace(" ", "")), max_size=4))
    plain = _TEXT.filter(known).filter(lambda term: "-" not in tidy(term))
    kept = st.builds(TermValue, st.sampled_from(terms) | plain if terms else plain, _TEXT)
    informs = draw(st.lists(kept.filter(_has_value), max_size=4))
    constraints = draw(st.lists(st.builds(TermValue, plain, _TEXT).filter(_has_value), max_size=3))
    queries = tuple(TermValue(term, "?") for term in terms)
    imap = Imap(queries, tuple(constraints), tuple(informs), explicit_none=draw(st.booleans()))
    return imap, terms


def _has_value(pair: TermValue) -> bool:
    return pair.key[1] not in ("none", "n/a", "无", "没有", "?", "[value]", "")


@given(imaps())
def test_parse_reads_what_serialise_writes(drawn: tuple[Imap, list[str]]) -> None:
    imap, terms = drawn
    assert parse(serialise(imap, terms), terms).imap == imap


@given(st.text(), st.lists(st.text(max_size=5), max_size=3))
def test_parse_never_raises(text: str, terms: list[str]) -> None:
    for prefix in ("", "Inform-", "Query:", "1. Constraint - "):
        parsed = parse(prefix + text, terms)
        assert parse(serialise(parsed.imap, terms), [*terms, *(pair.term for pair in parsed.imap.inform)]) is not None


@given(st.text())
def test_normal_text_is_normal(text: str) -> None:
    assert tidy(tidy(text)) == tidy(text)
    assert normal(normal(text)) == normal(text)
