"""The tables of all options of `medagent run`, from the benchmarks' settings models, for the docs site.

The second table shows which options each benchmark offers. If it does not offer one, REASONS says why; a missing reason
is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from medagent.benchmarks.base import find, names
from medagent.core.options import Option, OptionField, options
from medagent.engine.settings import RunSettings

ACTS = "one question and one answer, no actions"
NO_FHIR = "no FHIR data"
OWN_SET = "its data set is --dataset"
EPISODES = ("medagentbench", "psb-300", "fhir-agentbench")
NO_JUDGE = "graded by rules, not by a judge"
NO_STRATEGY = "no published strategies"
REASONS: dict[str, dict[str, str]] = {
    "version": {
        "psb-300": "one version of the tasks",
        "fhir-agentbench": "--dataset selects the data",
        "*": "one version of the data; --data selects it",
    },
    "dataset": {"*": "--data selects the data"},
    "types": {"fhir-agentbench": "--family, --template and --ids select", "*": "--ids selects"},
    "handling": {**dict.fromkeys(EPISODES, "the server is strict, as published"), "*": NO_FHIR},
    "found": {**dict.fromkeys(EPISODES, "found ids are not graded"), "*": NO_FHIR},
    "skill": {"*": "skills are for agents that act in episodes"},
    "rules": {"*": "medagent grade --rules compares rule sets"},
    "input-cap": {"*": NO_STRATEGY},
    "code-returns": {"*": NO_STRATEGY},
    "family": {"*": "--per-type and --ids select"},
    "template": {"*": "no item is made from a template"},
    "yes": {"*": "no data needs a data use agreement"},
    "protocol": {"*": ACTS},
    "loop": {"*": ACTS},
    "max-rounds": {"*": ACTS},
    "trial-seed": {"*": "the first trial runs without a seed, the others use their number"},
    "sandbox": {"*": ACTS},
    "sandbox-image": {"*": ACTS},
    "code": {"*": ACTS},
    "code-tool": {"*": ACTS},
    "code-packages": {"*": ACTS},
    "cache": {"imapscore": "its replies are always stored and shared"},
    "page-size": {"*": NO_FHIR},
    "order": {"*": NO_FHIR},
    "ehr": {"*": NO_FHIR},
    "fhir": {"*": NO_FHIR},
    "fhir-header": {"*": NO_FHIR},
    "ca-file": {"*": NO_FHIR},
    "insecure-http": {"*": NO_FHIR},
    "writes": {"*": ACTS},
    "allow-writes": {"*": NO_FHIR},
    "shown-base": {"*": NO_FHIR},
    "send-patient-data": {"*": NO_FHIR},
    "split": {"medagentbench": "one set of tasks for each version", "*": "one set of items"},
    "clock": {"*": "no rule uses the time of grading"},
    "unfinished": {
        "medagentbench": "an episode without FINISH is wrong",
        "fhir-agentbench": "an episode without an answer is wrong",
        "*": ACTS,
    },
    "answers": {
        "medagentbench": "results files are graded by medagent grade FILE",
        "psb-300": "there is no answers file for episodes",
        "fhir-agentbench": "output files are graded by medagent grade --benchmark fhir-agentbench FILE",
    },
    "allow-empty": dict.fromkeys(EPISODES, "an empty or cut-off message ends its episode with that status"),
    "data": {"medagentbench": OWN_SET, "psb-300": OWN_SET, "fhir-agentbench": OWN_SET},
    "encoding": {"medagentbench": OWN_SET, "psb-300": OWN_SET, "fhir-agentbench": "question files are UTF-8"},
    "graph": {"*": "no entities are linked"},
    "embed-model": {"*": "no entities are linked"},
    "embed-base-url": {"*": "no entities are linked"},
    "min-votes": {"*": "one reply per question; --trials repeats it"},
    "g-eval": {
        "simpleqa": "the judges are the metric",
        "fhir-agentbench": "the judges say right or wrong",
        "*": NO_JUDGE,
    },
    "few-shot": dict.fromkeys(EPISODES, "an episode is not a single question"),
    "batch": {
        **dict.fromkeys(EPISODES, "an episode is not a single question"),
        "imapscore": "each call of an item depends on the one before",
    },
    "gold": {
        **dict.fromkeys(EPISODES, "facts come from the patients (--ehr, --fhir)"),
        "fhir-agentbench": "--dataset contains the right answers",
        "*": "--data contains the right answers",
    },
    "card": {"*": "no shared task requires it"},
    "judge": {"*": NO_JUDGE},
    "judge-base-url": {"*": NO_JUDGE},
    "judge-api-key-env": {"*": NO_JUDGE},
    "judge-prompt": {"*": NO_JUDGE},
    "judge-max-tokens": {"*": NO_JUDGE},
    "allow-unread": {"*": NO_JUDGE},
    "recipe": {"*": "one way to measure"},
    "edition": {"*": "one edition"},
    "variant": {"*": "one format"},
    "lang": {"*": "each prompt is in one language"},
}
"""Why a benchmark does not offer an option; `*` is for all other benchmarks."""
STORAGE = {
    "setting": "fixed",
    "place": "may change",
    "limit": "may change, not stored",
    "effort": "not stored",
}
Owners = dict[str, OptionField]
"""An option with one meaning, by the names of the benchmarks that offer it."""


def rows() -> Iterator[Owners]:
    """Every option: first the options of all benchmarks, then each benchmark's own."""
    shared = {field.name: field for field in shown(RunSettings)}
    models = {name: {field.name: field for field in shown(find(name).Settings)} for name in names()}
    for name in shared:
        yield {"all": shared[name], **{benchmark: fields[name] for benchmark, fields in models.items()}}
    by_flag: dict[tuple[str, str], Owners] = {}
    for benchmark, fields in models.items():
        for name, field in fields.items():
            if name not in shared:
                by_flag.setdefault((field.flag, field.help), {})[benchmark] = field
    yield from by_flag.values()


def shown(model: type[RunSettings]) -> Iterator[OptionField]:
    """The options that `--help` shows."""
    return (field for field in options(model, "run") if not field.option.hidden)


def default(field: OptionField) -> str:
    """The default as on the command line; for a packaged file, its name."""
    if field.default is None or field.default is False:
        return "–"
    path = Path(str(field.default))
    return f"`{path.name if path.is_absolute() else field.default}`"


def line(owners: Owners) -> str:
    """One row of the table."""
    (who, first), *others = owners.items()
    if who != "all":
        who = ", ".join(owners)
    differing = [f"{name}: {default(field)}" for name, field in others if default(field) != default(first)]
    value, *alternatives = (first.option.metavar or "").split("|")
    flag = f"{first.written}=…" if first.option.part else f"{first.written} {value}".rstrip()
    second = [f"--{first.option.also}"] if first.option.also else []
    cells = (
        " or ".join(f"`{form}`" for form in (flag, *second, *alternatives)),
        who,
        default(first) + "".join(f" ({note})" for note in differing),
        storage(first.option),
        first.help,
    )
    return "| " + " | ".join(cell.replace("|", "&#124;").replace("<", "&lt;") for cell in cells) + " |"


def storage(option: Option) -> str:
    """Whether an option's value is stored, and whether it may change."""
    return STORAGE["limit" if (option.storage, option.kind) == ("place", "address") else option.storage]


def table() -> str:
    """The table in Markdown."""
    head = "| option | benchmark | default | in a run's folder | meaning |\n|---|---|---|---|---|"
    return "\n".join([head, *map(line, rows())])


def flag_of(field: OptionField) -> str:
    """The name of the option that a user writes, without dashes."""
    return field.written.removeprefix("--").partition(" ")[0]


def matrix() -> str:
    """The options of each benchmark. Raises KeyError if a missing option is without a reason."""
    models = {name: {flag_of(field) for field in shown(find(name).Settings)} for name in names()}
    shared = {flag_of(field) for field in shown(RunSettings)}
    flags = list(dict.fromkeys(flag for offered in models.values() for flag in sorted(offered)))
    lines = [f"| option | {' | '.join(models)} |", f"|---|{'---|' * len(models)}"]
    everywhere = [flag for flag in flags if flag in shared or all(flag in offered for offered in models.values())]
    lines.append(f"| {', '.join(f'`--{flag}`' for flag in everywhere)} |{' yes |' * len(models)}")
    for flag in sorted(set(flags) - set(everywhere)):
        reasons = REASONS[flag]
        cells = ["yes" if flag in offered else reasons.get(name) or reasons["*"] for name, offered in models.items()]
        lines.append(f"| `--{flag}` | {' | '.join(cells)} |")
    return "\n".join(lines)
