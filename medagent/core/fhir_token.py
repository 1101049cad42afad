"""Access to an external FHIR server: the bearer token, from the environment or from a file that another program
renews, and further headers. No secret is sent over plain HTTP beyond this machine, unless the user allows it.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from medagent.core.errors import UserError
from medagent.core.scrub import remember
from medagent.core.wire import grants_access, is_loopback, secret_for_header, split_credentials

if TYPE_CHECKING:
    import httpx

TOKEN, TOKEN_FILE = "MEDAGENT_FHIR_TOKEN", "MEDAGENT_FHIR_TOKEN_FILE"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SCOPE = re.compile(r"(?:patient|user|system)/[\w*]+\.(\w+|\*)(?:\?.*)?")
"""A SMART scope and what it allows: `user/*.write`, `system/Observation.*`, `patient/*.rs`."""


def server_headers(url: str, texts: Sequence[str], insecure_http: bool) -> dict[str, str]:
    """The headers for a FHIR server: those of the options, and the token. Raises UserError."""
    token = bearer_token()
    headers = {**dict(map(_header, texts)), **({"Authorization": f"Bearer {token}"} if token else {})}
    is_secret = any(map(grants_access, headers)) or split_credentials(url)[1] is not None
    if is_secret and not insecure_http and (host := _plain_http_host(url)):
        raise UserError(
            f"{host} is not this machine, and a token sent there over plain HTTP can be read on the way: use https, "
            "or pass --insecure-http"
        )
    return headers


def plain_http_warnings(url: str) -> Sequence[str]:
    """A warning if patients' data come over plain HTTP from another machine."""
    host = _plain_http_host(url)
    return [f"plain HTTP to {host}: what it sends can be read and changed on the way; use https"] if host else []


def _plain_http_host(url: str) -> str:
    """The host of an address beyond this machine that uses plain HTTP; otherwise empty."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""  # the address is reported when it is opened
    return "" if parts.scheme.lower() != "http" or is_loopback(host) else host


def _header(text: str) -> tuple[str, str]:
    """A header of an option. Raises UserError, which does not repeat the text: it may be a token without a name."""
    name, colon, value = text.partition(":")
    if not colon or not _HEADER_NAME.fullmatch(name.strip()):
        raise UserError("--fhir-header: write it as 'Name: value'")
    return name.strip(), secret_for_header(f"--fhir-header {name.strip()}", value)


def bearer_token() -> str | None:
    """The token; None if there is none. Raises UserError if it cannot be read, or sent in a header."""
    path = os.environ.get(TOKEN_FILE)
    if not path:
        token = secret_for_header(TOKEN, os.environ.get(TOKEN, ""))
    else:
        place = f"{path} ({TOKEN_FILE})"
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UserError(f"{place}: is not a text file in UTF-8") from None
        except OSError as error:
            raise UserError(f"{place}: cannot be read: {error.strerror}") from None
        token = secret_for_header(place, text)
        if not token:
            raise UserError(f"{place}: the file is empty; write the token into it, or unset {TOKEN_FILE}")
    remember(token)
    return token or None


def scope_that_writes(token: str) -> str | None:
    """The scope of a readable JWT, if it allows writes."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        scope = claims.get("scope", claims.get("scp", ""))
    except (ValueError, IndexError, AttributeError):
        return None
    scopes = list(map(str, scope)) if isinstance(scope, list) else str(scope).split()
    return next((scope for scope in scopes if (match := _SCOPE.fullmatch(scope)) and _writes(match[1])), None)


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
