"""Terminology: code systems and value sets, HL7's and stored ones, the codes of a value set, and units.

HL7's are from its R4 package, which HAPI also includes. `compose` of a value set is read as R4 defines it: whole
systems or listed codes, filters by the hierarchy, other value sets, and exclusions. Whether a text is a unit follows
from the grammar of the Unified Code for Units of Measure (UCUM, case sensitive format).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple, Protocol

from fhir_server import definitions
from fhir_server.wire.json_values import Json


class Library(Protocol):
    """Finds code systems and value sets by their canonical URL, without a version."""

    def code_system(self, url: str) -> Json | None:
        """The CodeSystem with this URL, or None."""

    def value_set(self, url: str) -> Json | None:
        """The ValueSet with this URL, or None."""


class Hl7Library:
    """HL7's own."""

    def code_system(self, url: str) -> Json | None:
        """The CodeSystem with this URL, or None."""
        return _resource("CodeSystem", url)

    def value_set(self, url: str) -> Json | None:
        """The ValueSet with this URL, or None."""
        return _resource("ValueSet", url)


HL7 = Hl7Library()


@cache
def _resource(kind: str, url: str) -> Json | None:
    resources = (json.loads(line) for line in definitions.terminology().get(url, ()))
    return next((resource for resource in resources if resource["resourceType"] == kind), None)


UCUM, MEDIA_TYPES = "http://unitsofmeasure.org", "urn:ietf:bcp:13"


def by_grammar(system: str | None, code: str) -> bool | None:
    """Whether a code is valid in a system that is defined by a grammar; None if the system is defined by a list.

    HAPI accepts any text as a media type.
    """
    if system == UCUM:
        return is_unit(code)
    return bool(code) if system == MEDIA_TYPES else None


class Concept(NamedTuple):
    """A concept of a code system: its display, and the codes of its ancestors, the nearest first."""

    display: str | None
    above: tuple[str, ...]


def concepts(code_system: Json) -> Mapping[str, Concept]:
    """The concepts of a code system by code, in order."""
    url = code_system.get("url")
    packed = HL7.code_system(url) if isinstance(url, str) else None
    return _packed_concepts(str(url)) if packed is code_system else dict(_walk(code_system.get("concept", ()), ()))


@cache
def _packed_concepts(url: str) -> Mapping[str, Concept]:
    return dict(_walk((HL7.code_system(url) or {}).get("concept", ()), ()))


def _walk(listed: list[Json], above: tuple[str, ...]) -> Iterator[tuple[str, Concept]]:
    for concept in listed:
        if "code" in concept:
            yield concept["code"], Concept(concept.get("display"), above)
            yield from _walk(concept.get("concept", ()), (concept["code"], *above))


class Coded(NamedTuple):
    """A code of a system, with its display."""

    system: str
    code: str
    display: str | None = None


class NotExpandable(Exception):
    """A value set whose codes cannot be listed; `system` is the unknown code system, if that is the reason."""

    def __init__(self, why: str, system: str = "") -> None:
        super().__init__(why)
        self.system = system


def expand(value_set: Json, library: Library, known: dict[str, list[Coded]] | None = None) -> list[Coded]:
    """The codes of a value set, in order; `known` caches the codes of the value sets that it includes, by URL.

    Raises:
        NotExpandable: a part of it is unknown here, or its codes can be tested but not listed.
    """
    if (stated := _stated(value_set)) is not None:
        return stated
    compose = value_set.get("compose") or {}
    known = {} if known is None else known
    excluded = {coded[:2] for part in compose.get("exclude", ()) for coded in _part(part, library, known)}
    included = dict.fromkeys(
        coded
        for part in compose.get("include", ())
        for coded in _part(part, library, known)
        if coded[:2] not in excluded
    )
    return list({coded[:2]: coded for coded in included}.values())


def contains(value_set: Json, system: str | None, code: str, library: Library) -> bool | None:
    """Whether a value set contains a code (of `system`, if not None); None if it cannot be decided here."""
    if (stated := _stated(value_set)) is not None:
        return any(coded.code == code and system in (None, coded.system) for coded in stated)
    unknown = False
    for part in (value_set.get("compose") or {}).get("exclude", ()):
        if _holds(part, system, code, library):
            return False
    for part in (value_set.get("compose") or {}).get("include", ()):
        match = _holds(part, system, code, library)
        if match:
            return True
        unknown = unknown or match is None
    return None if unknown else False


def _stated(value_set: Json) -> list[Coded] | None:
    """The codes of a value set that has an expansion and no definition, as terminology services export them."""
    if "expansion" not in value_set or value_set.get("compose"):
        return None
    return list(_contained(value_set["expansion"].get("contains", ())))


def _contained(listed: Iterable[Json]) -> Iterator[Coded]:
    for concept in listed:
        if "code" in concept and not concept.get("abstract"):
            yield Coded(concept.get("system", ""), concept["code"], concept.get("display"))
        yield from _contained(concept.get("contains", ()))


def _part(part: Json, library: Library, known: dict[str, list[Coded]]) -> list[Coded]:
    """The codes of one `include` or `exclude`."""
    codes: list[Coded] | None = None
    if "system" in part:
        codes = _of_system(part, library)
    for url in part.get("valueSet", ()):
        named = library.value_set(url.partition("|")[0])
        if named is None:
            raise NotExpandable(f"Unknown ValueSet: {url}")
        if url not in known:
            known[url] = expand(named, library, known)
        inner = known[url]
        keys = {coded[:2] for coded in inner}
        codes = inner if codes is None else [coded for coded in codes if coded[:2] in keys]
    return codes or []


def _of_system(part: Json, library: Library) -> list[Coded]:
    system = part["system"]
    code_system = library.code_system(system)
    known = concepts(code_system) if code_system is not None else {}
    if "concept" in part:
        return [
            Coded(
                system,
                item["code"],
                item.get("display") or (known[item["code"]].display if item["code"] in known else None),
            )
            for item in part["concept"]
            if "code" in item
        ]
    if code_system is None or code_system.get("content") in ("not-present", "example"):
        raise NotExpandable(f"Unknown code system: {system}", system)
    tests = part.get("filter", ())
    return [
        Coded(system, code, concept.display)
        for code, concept in known.items()
        if all(_meets(condition, code, concept.above) for condition in tests)
    ]


def _meets(test: Json, code: str, above: tuple[str, ...]) -> bool:
    """Whether a concept meets a filter.

    Raises:
        NotExpandable: the filter tests something other than the hierarchy or listed codes. A client's regular
            expression could run forever.
    """
    operator, value = test.get("op"), test.get("value")
    if test.get("property") in ("concept", "code"):
        match operator:
            case "is-a":
                return code == value or value in above
            case "descendent-of":
                return value in above
            case "is-not-a":
                return code != value and value not in above
            case "in":
                return code in str(value).split(",")
    raise NotExpandable(f"The filter {test.get('property')} {operator} {value} is not supported")


def _holds(part: Json, system: str | None, code: str, library: Library) -> bool | None:
    if "system" in part and system is not None and part["system"] != system:
        return False
    if (
        not {"concept", "filter", "valueSet"} & part.keys()
        and (known := by_grammar(part.get("system"), code)) is not None
    ):
        return known
    if "system" in part and "concept" not in part and library.code_system(part["system"]) is None:
        return None
    if "concept" not in part and not part.get("valueSet") and not part.get("filter"):
        code_system = library.code_system(part["system"])
        if code_system is not None and code_system.get("content") not in ("complete", "supplement"):
            return True if code in concepts(code_system) else None
    try:
        listed = _part(part, library, {})
    except NotExpandable:
        return None
    return any(coded.code == code and system in (None, coded.system) for coded in listed)


_METRIC: Final = frozenset(
    "m s g rad K C cd mol sr Hz N Pa J W A V F Ohm S Wb Cel T H lm lx Bq Gy Sv gon L l ar t bar u eV pc"  # noqa: SIM905  # words: as a list they are harder to read
    " kat U [iU] [IU] g% cal cal_th cal_m cal_IT Ci R RAD REM dyn erg P St Mx G Oe Gb sb Lmb ph b B Np Bd bit By"
    " B[SPL] B[V] B[mV] B[uV] B[10.nV] B[W] B[kW] eq osm mho att kat tex [g] [e] [m_e] [m_p] [c] [h] [k] [eps_0] [mu_0]"
    " [G] [ly] gf m[H2O] m[Hg] [Btu] Ao [lbf_av]".split()
)
"""Units that take a prefix."""
_OTHER: Final = frozenset(
    "% 10* 10^ [pi] [ppth] [ppm] [ppb] [pptr] deg ' '' min h d a_t a_j a_g a wk mo_s mo_j mo_g mo AU atm"  # noqa: SIM905  # words: as a list they are harder to read
    " [degF] [degRe] [degR] [in_i] [ft_i] [yd_i] [mi_i] [fth_i] [nmi_i] [kn_i] [sin_i] [sft_i] [syd_i] [cin_i] [cft_i]"
    " [cyd_i] [bf_i] [cr_i] [mil_i] [cml_i] [hd_i] [ft_us] [yd_us] [in_us] [rd_us] [ch_us] [lk_us] [rch_us] [rlk_us]"
    " [fth_us] [fur_us] [mi_us] [acr_us] [srd_us] [smi_us] [sct] [twp] [mil_us] [in_br] [ft_br] [mi_br] [acr_br]"
    " [gal_us] [bbl_us] [qt_us] [pt_us] [gil_us] [foz_us] [fdr_us] [min_us] [crd_us] [bu_us] [gal_wi] [pk_us] [dqt_us]"
    " [dpt_us] [tbs_us] [tsp_us] [cup_us] [foz_m] [cup_m] [tsp_m] [tbs_m] [gal_br] [pk_br] [bu_br] [qt_br] [pt_br]"
    " [gil_br] [foz_br] [fdr_br] [min_br] [gr] [lb_av] [oz_av] [dr_av] [scwt_av] [lcwt_av] [ston_av] [lton_av]"
    " [stone_av] [pwt_tr] [oz_tr] [lb_tr] [sc_ap] [dr_ap] [oz_ap] [lb_ap] [oz_m] [lne] [pnt] [pca] [pnt_pr] [pca_pr]"
    " [pied] [pouce] [ligne] [didot] [cicero] [psi] circ sph [car_m] [car_Au] [smoot]"
    " bit_s [in_i'H2O] [in_i'Hg] [PRU]"
    " [wood'U] [diop] [p'diop] %[slope] [mesh_i] [Ch] [drp] [hnsf'U] [MET] [hp'_X] [hp'_C] [hp'_M] [hp'_Q]"
    " [hp_X] [hp_C] [hp_M] [hp_Q] [kp_X] [kp_C] [kp_M] [kp_Q] [pH] [S] [HPF] [LPF] [arb'U] [USP'U] [GPL'U] [MPL'U]"
    " [APL'U] [beth'U] [anti'Xa'U] [todd'U] [dye'U] [smgy'U] [bdsk'U] [ka'U] [knk'U] [mclg'U] [tb'U] [CCID_50]"
    " [TCID_50] [EID_50] [PFU] [FFU] [CFU] [IR] [BAU] [AU] [Amb'a'1'U] [PNU] [Lf] [D'ag'U] [FEU] [ELU] [EU] [hp] [Cal]"
    " [m/s2/Hz^(1/2)] [ELU] [Ch] [stone_av] [AHF'U] [ehrlich'U]".split()
)
_PREFIXES: Final = tuple("da Ki Mi Gi Ti Y Z E P T G M k h d c m u n p f a z y".split())  # noqa: SIM905  # words: as a list they are harder to read
_EXPONENT = re.compile(r"[+-]?\d+$")
_PART = re.compile(r"\{[^{}]*\}|\[[^\]]*\]|[./()]|[^./(){}\[\]]+")


@lru_cache(maxsize=1024)
def is_unit(text: str) -> bool:
    """Whether a text is a UCUM unit."""
    if not text or not text.isascii() or " " in text or "\t" in text:
        return False
    tokens = _PART.findall(text)
    if "".join(tokens) != text:
        return False
    rest = _term(tokens[1:] if tokens[0] == "/" else tokens)
    return rest is not None and not rest


def _term(tokens: list[str]) -> list[str] | None:
    """The tokens after a term; None if the tokens do not begin with a term."""
    while True:
        rest = _component(tokens)
        if rest is None or not rest or rest[0] not in "./":
            return rest
        tokens = rest[1:]


def _component(tokens: list[str]) -> list[str] | None:
    if not tokens:
        return None
    if tokens[0] == "(":
        rest = _term(tokens[1:])
        return rest[1:] if rest and rest[0] == ")" else None
    if tokens[0][0] == "{":
        return tokens[1:]
    end = 0
    while end < len(tokens) and tokens[end] not in ("/", ".", "(", ")") and tokens[end][0] != "{":
        end += 1
    name = "".join(tokens[:end])
    rest = tokens[end + 1 :] if end < len(tokens) and tokens[end][0] == "{" else tokens[end:]
    return rest if name and (name.isdigit() or _is_atom(name) or _is_atom(_EXPONENT.sub("", name))) else None


def _is_atom(name: str) -> bool:
    if name in _METRIC or name in _OTHER:
        return True
    return any(name.startswith(prefix) and name[len(prefix) :] in _METRIC for prefix in _PREFIXES)
