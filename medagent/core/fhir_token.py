"""The bearer token for an external FHIR server, from the environment or from a file that another program renews."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medagent.core.errors import UserError
from medagent.core.scrub import remember

if TYPE_CHECKING:
    import httpx

TOKEN, TOKEN_FILE = "MEDAGENT_FHIR_TOKEN", "MEDAGENT_FHIR_TOKEN_FILE"
_SCOPE = re.compile(r"(?:patient|user|system)/[\w*]+\.(\w+|\*)(?:\?.*)?")
"""A SMART scope and what it allows: `user/*.write`, `system/Observation.*`, `patient/*.rs`."""


def bearer_token() -> str | None:
    """The token. Raises UserError if its file cannot be read."""
    named = os.environ.get(TOKEN_FILE)
    if not named:
        return os.environ.get(TOKEN) or None
    try:
        token = Path(named).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{named} ({TOKEN_FILE}): cannot be read: {error}") from None
    if not token:
        raise UserError(f"{named} ({TOKEN_FILE}): is empty")
    remember(token)
    return token


def scope_that_writes(token: str) -> str | None:
    """The scope of a readable JWT, if it allows writes."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        scope = claims.get("scope", claims.get("scp", ""))
    except (ValueError, IndexError, AttributeError):
        return None
    scopes = list(map(str, scope)) if isinstance(scope, list) else str(scope).split()
    return next((one for one in scopes if (match := _SCOPE.fullmatch(one)) and _writes(match[1])), None)


def _writes(allowed: str) -> bool:
    return allowed in ("write", "*") or (set(allowed) <= set("cruds") and not set(allowed) <= set("rs"))


def renewing() -> Any:
    """The authentication of an HTTP client that reads the token's file again after a 401; None without a file."""
    if not os.environ.get(TOKEN_FILE):
        return None
    import httpx

    class Renewing(httpx.Auth):
        """Sends the token of the file."""

        token = bearer_token()

        def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
            sent = self.token
            request.headers["Authorization"] = f"Bearer {sent}"
            response = yield request
            if response.status_code == 401 and (renewed := bearer_token()) != sent:
                self.token = renewed
                request.headers["Authorization"] = f"Bearer {renewed}"
                yield request

    return Renewing()
