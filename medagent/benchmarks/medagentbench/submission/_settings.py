"""The settings in a pack's `run.json` that a check needs, and the protocol of the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED
from medagent.core.errors import UserError
from medagent.core.named_paths import named_path
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.session import SessionRules
from refsol.files import read_json
from refsol.schema import faults, validator

PROMPTS = "prompts.json"
"""The file of a pack with the run's own prompts, as a complete `Protocol`."""


class PackSettings(BaseModel):
    """The settings that a check needs, by the names of their options."""

    model_config = ConfigDict(frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-"))

    version: Literal["v1", "v2"]
    dataset: str | None = None
    agent: str | None = None
    model: str | None = None
    tasks_digest: str | None = None
    seed_digest: str | None = None
    prompts_digest: str | None = None
    ehr_digest: str | None = None
    fhir: str | None = None
    protocol: Literal["text", "tools", "code"] | None = None
    loop: Literal["published", "lenient"] | None = None
    api_base: str
    max_rounds: int = Field(ge=1)
    writes: Literal["ack", "execute"] | None = None
    strip_thinking: bool | None = None
    max_tokens: int | None = None

    @classmethod
    def of(cls, pack: Path, settings: Mapping[str, Any]) -> PackSettings:
        """Read the settings of a pack's run. Raises UserError if one has a wrong type."""
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            fault = faults(error, settings)[0]
            raise UserError(f"{pack}: run.json: settings.{'.'.join(map(str, fault.steps))}: {fault.text}") from None

    @property
    def rules(self) -> SessionRules:
        """The rules of the run's sessions."""
        return SessionRules(
            self.api_base,
            self.max_rounds,
            self.writes or "ack",
            self.strip_thinking or False,
            self.loop or "published",
        )


def data_set_protocol(dataset: str | None, version: str, protocol: str | None) -> Protocol:
    """The protocol of a run that uses the data set's prompts. Raises UserError."""
    source = MedAgentBenchSettings(version=version, dataset=dataset or BUNDLED)
    return MedAgentBench().protocol(source, protocol or "text")


def own_protocol(folder: Path, run: Mapping[str, Any]) -> Protocol | None:
    """The protocol of a run with its own prompts (`--prompt`, `--system`), from its `run.json`.

    None if the run has none, if the prompt files are missing or changed, or if the folder may not name them.
    """
    settings, places = run["settings"], run.get("places", {})
    if not (settings.get("prompt-digest") or settings.get("system-digest")):
        return None
    try:
        files = {
            name: Path(named_path(folder, name, places[name])) for name in ("prompt", "system") if places.get(name)
        }
        dataset = named_path(folder, "dataset", settings.get("dataset") or BUNDLED)
        protocol = data_set_protocol(dataset, settings.get("version"), settings.get("protocol"))
        protocol = protocol.worded(prompt=files.get("prompt"), system=files.get("system"))
    except UserError:
        return None
    return protocol if protocol.digest == settings.get("prompts-digest") else None


def packed_protocol(folder: Path) -> Protocol | None:
    """The protocol in a pack, or None if it has none. Raises UserError if the file is damaged."""
    path = folder / PROMPTS
    if not path.is_file():
        return None
    return read_json(path, validator(Protocol), expected="a protocol is expected", error=UserError)
