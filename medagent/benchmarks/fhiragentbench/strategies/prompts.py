"""The system prompts of the strategies: the bundled ones, or the published ones read from a checkout.

The published texts are parsed from the source files with `ast`; no code of a checkout is imported or run. A text is
accepted only if its digest is the published one.
"""

from __future__ import annotations

import ast
import hashlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

from medagent.benchmarks.fhiragentbench.strategies.plan import PROGRAM, TYPES, Strategy
from medagent.core.errors import UserError
from medagent.models.wording import fill
from refsol.files import read_text
from refsol.python_text import python_module

PUBLISHED = "published="
"""The prefix of a prompt option that points to a checkout."""
_BUNDLED = Path(__file__).parent.parent / "prompts" / "strategies.toml"
DIGESTS = {
    "single_turn_request": "c6cfd24886710256d10ecbfe4de548f69fecbec7589b2848cd9356205eb2aad3",
    "single_turn_resource": "d93443dc3a75d377932c05b99ab0374edd1bef3bc8d92d5e9c316071173c9aa8",
    "single_turn_code_resource": "cdbf4eacc920b548cefee6cae65d56e243ad61fb53fba8724fbb5c54a56b1706",
    "multi_turn_resource": "024ec2db9e32314f67c911a3af4cf38fbb7686b924d63d85b78c39eb9c408e5a",
    "multi_turn_code_resource": "3974d1b3560a9adf7b9ebc210966f1404ab48b82323271475b5249a55efcc301",
}
"""By strategy, the SHA-256 of the published text with its fields filled in."""


def bundled_prompt(strategy: Strategy) -> str:
    """The bundled system prompt of a strategy."""
    texts = tomllib.loads(_BUNDLED.read_text(encoding="utf-8"))
    return fill(texts[strategy.name].strip(), types=", ".join(TYPES))


def checkout_of(option: Path | str | None) -> Path | None:
    """The checkout that a prompt option names. None for the user's own file, or without an option."""
    text = str(option or "")
    return Path(text.removeprefix(PUBLISHED)) if text.startswith(PUBLISHED) else None


def published_prompt(strategy: Strategy, checkout: Path) -> str:
    """The published system prompt. Raises UserError if it is missing or differs from the published one."""
    path = checkout / "agent" / f"{strategy.name}_agent.py"
    text = "".join(_filled(_system_text(path), strategy, path))
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    if digest != DIGESTS[strategy.name]:
        raise UserError(
            f"{path}: the system prompt is not the published one: its SHA-256 is {digest}, not "
            f"{DIGESTS[strategy.name]}; pass your own text with --system FILE"
        )
    return text


def _system_text(path: Path) -> ast.JoinedStr:
    """The f-string of the system message in an agent's file. Raises UserError."""
    try:
        tree = python_module(read_text(path, error=UserError))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not valid Python: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "self.system_msg" for target in node.targets):
            for part in ast.walk(node.value):
                if isinstance(part, ast.JoinedStr):
                    return part
    raise UserError(f"{path}: contains no system_msg with a text; name a checkout of FHIR-AgentBench: published=DIR")


def _filled(text: ast.JoinedStr, strategy: Strategy, path: Path) -> Iterator[str]:
    """The parts of an f-string. Its two expressions are replaced by the resource types and the tools."""
    tools = (*strategy.tools, PROGRAM) if strategy.code else strategy.tools
    for part in text.values:
        if isinstance(part, ast.Constant):
            yield str(part.value)
            continue
        expression = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
        if "supported_types" in expression:
            yield ", ".join(TYPES)
        elif "tool['function']['name']" in expression:
            yield ", ".join(tool.name for tool in tools)
        else:
            raise UserError(f"{path}: the system prompt contains an unknown expression: {expression}")
