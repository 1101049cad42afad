"""The process in which a user's copy of the official grader runs: `python -m` this module, JSON lines in and out.

The first line says which file and patients to use. Each further line is an item. The file's own output is discarded, so
that it does not mix with the replies. Only this process runs the user's code, so that code may raise, exit or hang.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TextIO
from urllib.parse import urlencode

from medagent.fhir_data.asking import Ask, http_ask, server_ask

PACKAGE = "official"
UTILS = ("utils", f"{PACKAGE}.utils", "src.server.tasks.medagentbench.utils")
"""The module names from which the file may import `send_get_request`."""


def opened(data: dict[str, Any]) -> tuple[str, Ask]:
    """The patients' FHIR base, and a function that sends GETs to it: to an embedded server, or over HTTP."""
    if data["store"] is None:
        address, ask = http_ask(data["url"], data["headers"], None)
        return address.rstrip("/") + "/", ask
    from medagent.fhir_data.embedded import EmbeddedEhr

    base = data["base"]
    return base, server_ask(EmbeddedEhr.open(Path(data["store"]), base).server, base)


def fetcher(shown: str, address: str, ask: Ask) -> Callable[..., dict[str, Any]]:
    """`send_get_request` of the published utilities, which returns the status and the body as JSON text."""

    def send_get_request(url: str, params: Any = None, headers: Any = None) -> dict[str, Any]:
        if not url.startswith(shown):
            raise OSError(f"{url}: does not begin with the FHIR base {shown}")
        separator = "&" if "?" in url else "?"
        query = f"{separator}{urlencode(params, doseq=True)}" if params else ""
        status, body = ask(address + url[len(shown) :] + query)
        return {"status_code": status, "data": body.decode("utf-8", "replace")}

    return send_get_request


def loaded(path: Path, send_get_request: Callable[..., dict[str, Any]]) -> ModuleType:
    """Load the file as a module of a package that contains `utils`."""
    for name in UTILS:
        parts = name.split(".")
        for end in range(1, len(parts)):
            package = sys.modules.setdefault(".".join(parts[:end]), ModuleType(".".join(parts[:end])))
            package.__path__ = []
        utils = ModuleType(name)
        vars(utils).update(send_get_request=send_get_request, json=json)
        sys.modules[name] = utils
    spec = importlib.util.spec_from_file_location(f"{PACKAGE}.refsol", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judged(module: ModuleType, item: dict[str, Any], base: str) -> dict[str, Any]:
    """The file's verdict on one item. Only `True` is right; an exception is wrong, as in the published grader."""
    history = [SimpleNamespace(role=message["role"], content=message["content"]) for message in item["history"]]
    results = SimpleNamespace(result=item["answer"], history=history, index=0, status="completed")
    try:
        right = getattr(module, item["function"])(item["task"], results, base) is True
    except Exception as error:
        return {"right": False, "reason": f"raised {type(error).__name__}: {error}", "raised": True}
    return {"right": right, "reason": "", "raised": False}


def main() -> None:
    """Reply to each input line until the input ends."""
    replies: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    lines = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)

    def reply(value: dict[str, Any]) -> None:
        replies.write(json.dumps(value) + "\n")
        replies.flush()

    begin = json.loads(lines.readline())
    address, ask = opened(begin["data"])
    try:
        module = loaded(Path(begin["file"]), fetcher(begin["base"], address, ask))
    except (Exception, SystemExit) as error:
        reply({"problem": f"{type(error).__name__}: {error}"})
        return
    reply({"functions": [name for name in vars(module) if callable(getattr(module, name))]})
    for line in lines:
        reply(judged(module, json.loads(line), begin["base"]))


if __name__ == "__main__":
    main()
