"""The packages of the extra `imapscore`: imported when first used, so that scoring without them works."""

from __future__ import annotations

import importlib
from typing import Any

from refsol.errors import InputError


def need(module: str) -> Any:
    """The module of that name. Raises InputError, naming the command that installs it, where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(f"this needs the package {package}: pip install 'medagent[imapscore]'") from error
