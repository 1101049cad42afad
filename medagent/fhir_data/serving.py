"""Access to a FHIR server on a port: options of `medagent serve`."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import BaseModel, ConfigDict

from fhir_server.access import Access
from medagent.core.options import Option
from medagent.core.wire import secret_for_header

ASKING = "Who may ask"
SERVE_TOKEN = "MEDAGENT_SERVE_TOKEN"


class ServingAccess(BaseModel):
    """Token, origins of web pages, host names, episodes, and hosts for notifications."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    token: Annotated[str | None, Option(ASKING, kind="secret")] = None
    """Require this bearer token from clients (default: MEDAGENT_SERVE_TOKEN)."""
    insecure: Annotated[bool, Option(ASKING, kind="value")] = False
    """Allow other addresses than this machine's without a token."""
    cors: Annotated[list[str], Option(ASKING, kind="address")] = []
    """An origin whose web pages may use the server (`*`: any); repeatable. Off by default, unlike HAPI: otherwise any
    page in a browser could read and write this server.
    """
    allow_host: Annotated[list[str], Option(ASKING, kind="address")] = []
    """Without a token, a host name that requests may use next to localhost; repeatable. Other names are refused: a web
    page can make its own name resolve to this machine (DNS rebinding).
    """
    allow_hook: Annotated[list[str], Option(ASKING, kind="address")] = []
    """A host that Subscriptions may notify (rest-hook); repeatable. Notifications to other hosts are refused, localhost
    included: otherwise clients could make this machine send requests anywhere.
    """
    episodes: Annotated[bool, Option(ASKING, kind="value")] = False
    """Open private, logged copies of the data for holders of the token (POST /episodes); the data stay read-only."""
    export: Annotated[bool, Option(ASKING, kind="value")] = False
    """Offer bulk exports ($export) of all data as NDJSON."""

    @property
    def access(self) -> Access:
        """These options in the server's format."""
        place, text = ("--token", self.token) if self.token else (SERVE_TOKEN, os.environ.get(SERVE_TOKEN, ""))
        token = secret_for_header(place, text) or None
        return Access(token, self.cors, self.allow_host, self.episodes, self.export)
