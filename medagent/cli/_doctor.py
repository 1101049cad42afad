"""`medagent doctor`: checks for everything that a run needs, and prints what to do about each problem.

No text contains a key.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from fhir_server.wire.json_text import decode
from fhir_server.wire.json_values import JsonTextError
from medagent.benchmarks.base import DEFAULT, find
from medagent.cli import _server_options as server_options
from medagent.core.errors import MedagentError, ModelError, UserError
from medagent.core.number_formats import model_name
from medagent.core.options import checked
from medagent.core.paths import cache_dir, config_dir, data_dir
from medagent.engine.settings import RunSettings
from medagent.fhir_data.embedded import EmbeddedEhr, built_hospital
from medagent.fhir_data.http import HttpEhr
from medagent.fhir_data.record import EhrSession, diagnostics
from medagent.models import open_model
from medagent.models.base import Message, Tool
from medagent.models.keys import key_uses
from medagent.models.prices import find_price, own_table
from medagent.models.settings import ModelSettings
from medagent.reports.power import noise_line
from medagent.reports.tables import put
from medagent.sandbox.choose import Sandbox, installed_by, sandboxes, self_test
from medagent.terminal.settings import fields_of, with_options

PACKAGES = ("medagent", "fhir.resources", "httpx", "openai", "pydantic", "rich", "typer", "uvicorn")
_FEW_RETRIES = {"max_retries": 1, "retry_time_s": 30.0}
_TOOL_TOKENS = 300
_CLOCK = Tool("clock", "Tells the time.", {"type": "object", "properties": {}})
SEARCH = "/Observation?code=GLU&_count=1"


@with_options(fields_of(RunSettings, "model", "base_url", "api", "results_dir"))
def command(
    values: dict[str, Any],
    fhir: Annotated[str | None, typer.Option(help="Also check the FHIR server at this base URL.")] = None,
    fhir_header: server_options.FhirHeader = None,
    insecure_http: server_options.InsecureHttp = False,
    ca_file: server_options.CaFile = None,
    price: Annotated[
        list[str] | None,
        typer.Option(help="Also print the price of this model, and where it is from; repeatable."),
    ] = None,
) -> None:
    """Check this installation: one line per check, ok or what to do. Exit code 1 if a check fails.

    With --model, the model is called twice: for one token, and with one tool.

    Example: medagent doctor --fhir http://localhost:8080/fhir --model gpt-4o-mini --price gpt-4o-mini
    """
    server = server_options.open_server(fhir, fhir_header, insecure_http, ca_file) if fhir else None
    few = 1 if values.get("api", "chat") == "chat" else 16
    settings = checked(RunSettings, {**values, "max_tokens": few, "timeout": 60, "temperature": -1})
    code = 0
    for name, check in _checks(server, settings, price or ()):
        try:
            put(f"ok   {name}: {check()}")
        except MedagentError as error:
            put(f"FAIL {name}: {error}")
            code = 1
    raise typer.Exit(code)


def _checks(
    server: HttpEhr | None, settings: RunSettings, priced: Sequence[str]
) -> Iterator[tuple[str, Callable[[], str]]]:
    """The checks with their names. A check returns a state that is fine. It raises MedagentError with what to do."""
    yield "Python", lambda: ".".join(map(str, sys.version_info[:3]))
    yield "packages", _packages
    yield "data sets", _datasets
    yield "differences", lambda: f"{noise_line([1.0] * 300)}, {noise_line([1.0] * 100)} (medagent power)"
    yield "hospital", lambda: asyncio.run(_hospital())
    for sandbox in sandboxes():
        yield f"sandbox {sandbox.name}", partial(_sandbox, sandbox)
    if server is not None:
        yield "--fhir", lambda: asyncio.run(_server(server))  # errors name the server
    if model := settings.chat:
        for use in key_uses([model], os.environ):
            yield f"key of {use.origin}", partial(str, f"{use.variable} ({use.masked})" if use.variable else "none")
        yield f"model {model.name}", lambda: asyncio.run(_model(model))
        yield f"tools of {model.name}", lambda: asyncio.run(_tools(model))
    for name in priced:
        yield f"price of {name}", partial(_price, name)
    folders = {"results": settings.results_dir, "data": data_dir(), "cache": cache_dir(), "settings": config_dir()}
    for name, folder in folders.items():
        yield f"{name} folder", partial(_folder, folder)


def _price(model: str) -> str:
    price = find_price(model)
    if price is None:
        raise UserError(f"none, so the cost of its calls is unknown; add it to {own_table()} (docs/models.md)")
    return str(price)


def _packages() -> str:
    present, missing = [], []
    for name in PACKAGES:
        try:
            present.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        raise UserError(f"{', '.join(missing)} not installed; run `make install`")
    return ", ".join(present)


def _datasets() -> str:
    return "; ".join(
        f"{data.name} {data.version}: {data.items} tasks, digest {data.digest[:16]}"
        if data.digest
        else f"{data.name}: not imported; to import it: `medagent data import DIR`"
        for data in find(DEFAULT).present_sets()
    )


async def _hospital() -> str:
    path = built_hospital()
    if path is None:
        return "not built yet; the first run builds it, or `medagent ehr build`"
    ehr = EmbeddedEhr.open(path, "http://localhost:8080/fhir")
    try:
        async with ehr.session("doctor") as session:
            return f"{path}: {await _look(session)}"
    finally:
        ehr.close()


def _sandbox(sandbox: Sandbox) -> str:
    """Not an error if it cannot be used: only agents that act in code need a sandbox."""
    problem = asyncio.run(self_test(sandbox))
    return sandbox.version() if problem is None else f"not usable here: {problem}{installed_by(sandbox)}"


async def _server(server: HttpEhr) -> str:
    async with server:
        await server.check()
        async with server.session("doctor") as session:
            return f"{server.url}: {await _look(session)}"


async def _look(session: EhrSession) -> str:
    """An EHR's software, resource counts and one search. Raises UserError if it does not answer as FHIR does."""
    software = (await _get(session, "/metadata")).get("software")
    name = f"{software.get('name')} {software.get('version')}" if isinstance(software, dict) else "unnamed software"
    counts = [f"{await _count(session, kind)} {kind}" for kind in ("Patient", "Observation")]
    bundle = await _get(session, SEARCH)
    if bundle.get("resourceType") != "Bundle":
        raise UserError(f"the reply to {SEARCH} is not a Bundle; is this a FHIR base?")
    return f"{name}, {', '.join(counts)}, searches are answered"


async def _count(session: EhrSession, kind: str) -> int:
    target = f"/{kind}?_summary=count"
    total = (await _get(session, target)).get("total")
    if not isinstance(total, int):
        raise UserError(f"the reply to {target} does not contain a total; is this a FHIR base?")
    return total


async def _get(session: EhrSession, target: str) -> dict[str, Any]:
    reply = await session.get(target)
    if not reply.ok:
        raise UserError(f"status {reply.status} for {target}: {diagnostics(reply)}; is this a FHIR base?")
    try:
        value = decode(reply.text)
    except JsonTextError:
        value = None
    if not isinstance(value, dict):
        raise UserError(f"the reply to {target} is not FHIR JSON; is this a FHIR base?")
    return value


async def _model(settings: ModelSettings) -> str:
    """Call the model once, and say which model its endpoint served, and with which window."""
    model = open_model(settings.model_copy(update=_FEW_RETRIES))
    try:
        done = await model.complete([Message("user", "Say ok.")])
    finally:
        await model.aclose()
    served = model_name(done.model) if done.model else "no name"
    window = model.stats.stated.get("window")
    return (
        f"replied in {done.latency:.1f} s, {done.usage.total} tokens; served as {served} (asked for {settings.name}); "
        f"window {f'{window:,} tokens' if window else 'not stated'}"
    )


async def _tools(settings: ModelSettings) -> str:
    """Whether the model calls a tool. It need not: the default protocol is text."""
    model = open_model(settings.model_copy(update={**_FEW_RETRIES, "max_tokens": _TOOL_TOKENS}))
    try:
        done = await model.complete([Message("user", "What time is it? Call the tool.")], tools=[_CLOCK])
    except ModelError as error:
        return f"not available ({error}); use --protocol text"
    finally:
        await model.aclose()
    if done.tool_calls:
        return f"called {done.tool_calls[0].name}"
    return "the reply contains no call; the server may lack a chat template or a parser (or use --protocol text)"


def _folder(folder: Path) -> str:
    """Check that a file can be written in the folder, or in the closest parent that exists."""
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as error:
        raise UserError(
            f"{above}: cannot be written: {error.strerror}; change its permissions, or choose another folder "
            "(--results-dir, MEDAGENT_HOME)"
        ) from None
    return str(folder)
