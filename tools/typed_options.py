"""Writes `medagent/options.py`, the options of the Python API as TypedDicts, from the settings models.

    python tools/typed_options.py

So type checkers know the options of `medagent.run` and similar functions. `tests/test_typing.py` fails if the module
differs from the models.
"""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AwareDatetime, BaseModel

from medagent.benchmarks.base import DEFAULT, fhir_names, find, names
from medagent.engine.settings import RunSettings
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.http_episodes import http_options
from medagent.fhir_episodes.settings import FhirSettings

MODULE = Path(__file__).resolve().parent.parent / "medagent" / "options.py"
HEAD = '''"""The options of the Python API, by name and type. Made by `python tools/typed_options.py`; do not edit.

    options: MedAgentBenchOptions = {"model": "gpt-4o-mini", "limit": 10}
    report = medagent.run_sync("medagentbench", **options)

docs/running.md describes each option under its name on the command line (`max_tokens`: `--max-tokens`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    from datetime import datetime
    from functools import partial

    from medagent.agents.base import Agent
    from medagent.models.base import Model
'''
CLASSES = {name.lower(): f"str | type[{name}] | {name} | partial[Any] | None" for name in ("Agent", "Model")}
"""Options that take a class as well."""
SIMPLE = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    type(None): "None",
    Any: "Any",
    Path: "str | Path",
    datetime: "str | datetime",
}
Fields = Mapping[str, str]
"""The types of options, by name."""


def written_type(annotation: Any) -> str:
    """What a program may pass for an annotation of a settings model. Raises KeyError for a type without a form here."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return written_type(arguments[0])
    if origin in (Union, types.UnionType):
        parts = [part for one in arguments for part in written_type(one).split(" | ")]
        return " | ".join(dict.fromkeys(parts))
    if origin is Literal:
        return f"Literal[{', '.join(f'{value!r}' for value in arguments)}]".replace("'", '"')
    if origin is list:
        return f"Sequence[{written_type(arguments[0])}]"
    if origin is tuple:  # several names, which a text has with commas between them
        return "str | Sequence[str]"
    if origin is dict:
        return f"Mapping[{', '.join(map(written_type, arguments))}]"
    return SIMPLE[datetime if annotation is AwareDatetime else annotation]


def fields(model: type[BaseModel]) -> Fields:
    """The options of a settings model; those that are needed as `Required`."""
    types = {}
    for name, info in model.model_fields.items():
        text = CLASSES[name] if name in CLASSES and issubclass(model, RunSettings) else written_type(info.annotation)
        types[name] = f"Required[{text}]" if info.is_required() else text
    return types


def typed_dict(name: str, about: str, own: Fields, base: str = "TypedDict") -> str:
    """The source of a TypedDict."""
    lines = [f"class {name}({base}, total=False):", f'    """{about}"""', ""]
    lines += [f"    {field}: {text}" for field, text in own.items()]
    return "\n".join(lines).rstrip()


def beyond(model: Fields, base: Fields) -> Fields:
    """The fields that a base does not have. Raises ValueError for one that has another type there."""
    if differing := [name for name, text in base.items() if model.get(name) != text]:
        raise ValueError(f"{differing[0]} has another type in a benchmark than in all")
    return {name: text for name, text in model.items() if name not in base}


def shared_by_fhir(base: Fields) -> dict[str, str]:
    """The fields beyond `base` that all benchmarks with FHIR sessions have with the same type."""
    models = [fields(find(name).Settings) for name in fhir_names()]
    common = set.intersection(*(set(model.items()) for model in models))
    return {name: text for name, text in beyond(fields(FhirSettings), base).items() if (name, text) in common}


def label(benchmark: str) -> str:
    """What the options of a benchmark are named by: its class."""
    return type(find(benchmark)).__name__


def parts() -> Iterator[str]:
    """The TypedDicts."""
    shared = dict(fields(RunSettings))
    yield typed_dict("RunOptions", "The options of every run.", shared)
    fhir = shared_by_fhir(shared)
    yield typed_dict("FhirOptions", "The options of every run with FHIR sessions.", fhir, "RunOptions")
    for name in names():
        about, settings = f"The options of a run of {name}.", find(name).Settings
        known, base = (shared | fhir, "FhirOptions") if issubclass(settings, FhirSettings) else (shared, "RunOptions")
        yield typed_dict(f"{label(name)}Options", about, beyond(fields(settings), known), base)
    grading: dict[str, str] = {}
    for name in names():
        grading |= fields(find(name).GradeOptions)
    yield typed_dict("GradeOptions", "The options of `medagent.grade` and `medagent.compare`.", grading)
    default = find(DEFAULT)
    assert isinstance(default, FhirBenchmark)
    episode, own = fields(FhirBenchmark.Episodes), fields(default.Episodes)
    yield typed_dict("EpisodeOptions", "The options of an episode, for any benchmark.", episode)
    about = "The options of an episode of MedAgentBench, and of `medagent.tasks`."
    yield typed_dict(f"{label(DEFAULT)}EpisodeOptions", about, beyond(own, episode), "EpisodeOptions")
    over_http = {name: own[name] for name in http_options(default)}
    yield typed_dict("HttpEpisodeOptions", "The options of `medagent.serve_episodes`.", over_http)


def module() -> str:
    """The module's source, as ruff formats it."""
    text = HEAD + "".join(f"\n\n{part}\n" for part in parts())
    command = [sys.executable, "-m", "ruff", "format", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
