"""Who may ask a FHIR server on a port: options of `medagent serve`."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import BaseModel, ConfigDict

from fhir_server.access import Access
from medagent.core.options import Option

ASKING = "Who may ask"


class ServingAccess(BaseModel):
    """Tokens, origins of pages, names; private copies for clients of their own; whom notifications may reach."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    token: Annotated[str | None, Option(ASKING, kind="secret")] = None
    """Ask clients for this bearer token (default: MEDAGENT_SERVE_TOKEN)."""
    insecure: Annotated[bool, Option(ASKING, kind="value")] = False
    """Listen beyond this machine without a token."""
    cors: Annotated[list[str], Option(ASKING, kind="address")] = []
    """An origin whose web pages may ask (`*`: any); repeatable. Off by default, unlike HAPI: any page that is open in a
    browser could read and write this server.
    """
    allow_host: Annotated[list[str], Option(ASKING, kind="address")] = []
    """Without a token, a name under which the server may be asked beside localhost; repeatable. Others are refused: a
    web page can have its own name lead to this machine (DNS rebinding).
    """
    allow_hook: Annotated[list[str], Option(ASKING, kind="address")] = []
    """A host to which Subscriptions may have notifications sent (rest-hook); repeatable. Whoever may write here could
    else have this machine send requests anywhere, so it sends none to others, and localhost too must be named.
    """
    episodes: Annotated[bool, Option(ASKING, kind="value")] = False
    """Open private, logged copies of the data for who has the token (POST /episodes); the data are only read."""
    export: Annotated[bool, Option(ASKING, kind="value")] = False
    """Offer bulk exports ($export) of all data as NDJSON."""

    @property
    def access(self) -> Access:
        """The same as the server takes it."""
        token = self.token or os.environ.get("MEDAGENT_SERVE_TOKEN") or None
        return Access(token, self.cors, self.allow_host, self.episodes, self.export)
