"""A FHIR double as a transport of httpx2, which openai, anthropic and mcp use in place of httpx."""

from __future__ import annotations

import httpx2

from medagent.testing._httpx_adapter import Answering


class DoubleTransport2(Answering, httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """The transport to a double for clients of httpx2."""

    library = httpx2
