"""The parameters of an operation, from its URL and from a Parameters resource in its body; replies with Parameters."""

from __future__ import annotations

from collections.abc import Iterable

from fhir_server.interactions.context import RequestContext
from fhir_server.interactions.write import FORM, body_json
from fhir_server.wire.http import Pairs, Response, parse_query
from fhir_server.wire.json_text import render
from fhir_server.wire.json_values import Json


class Arguments:
    """The parameters of one call of an operation."""

    def __init__(self, context: RequestContext) -> None:
        self.pairs: Pairs = context.pairs
        self.body: Json = None
        """The resource in the body, if it is not a Parameters resource."""
        self.listed: list[Json] = []
        """The parameters in the body."""
        if context.request.body:
            if (context.request.header("content-type") or "").startswith(FORM):
                self.pairs += parse_query(context.request.text)
            else:
                self._read(body_json(context, "EXTENDED_OPERATION_TYPE"))

    def _read(self, body: Json) -> None:
        if isinstance(body, dict) and body.get("resourceType") == "Parameters":
            listed = body.get("parameter")
            self.listed = (
                [parameter for parameter in listed if isinstance(parameter, dict)] if isinstance(listed, list) else []
            )
        else:
            self.body = body

    def value(self, name: str) -> Json:
        """The value of a parameter: the text in the URL, else the value in the body, of any type; None if missing."""
        for key, value in self.pairs:
            if key == name and value:
                return value
        for parameter in self.listed:
            if parameter.get("name") == name:
                return next(
                    (value for key, value in parameter.items() if key.startswith("value") or key == "resource"), None
                )
        return None

    def text(self, name: str) -> str:
        """The value of a parameter as text; empty if it is missing."""
        value = self.value(name)
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None or isinstance(value, (dict, list)) else str(value)

    def texts(self) -> Pairs:
        """All parameters with a scalar value, as pairs of a query string."""
        pairs = [*self.pairs]
        for parameter in self.listed:
            name = parameter.get("name")
            value = next((value for key, value in parameter.items() if key.startswith("value")), None)
            if isinstance(name, str) and isinstance(value, (str, int)) and not isinstance(value, bool):
                pairs.append((name, str(value)))
        return tuple(pairs)

    def codings(self) -> list[tuple[str, str]]:
        """The codes in `code`, `coding` or `codeableConcept`, each as (system, code)."""
        code = self.text("code")
        if code:
            return [(self.text("system"), code)]
        coding, concept = self.value("coding"), self.value("codeableConcept")
        if isinstance(coding, str):  # in a URL: `system|code`
            system, _, code = coding.rpartition("|")
            return [(system, code)]
        listed = (concept or {}).get("coding") or [] if isinstance(concept, dict) else []
        if isinstance(coding, dict):
            listed = [coding, *listed]
        return [(str(item.get("system", "")), str(item.get("code", ""))) for item in listed if isinstance(item, dict)]


def answer(context: RequestContext, listed: Iterable[Json]) -> Response:
    """The answer to an operation: a Parameters resource with these parameters."""
    parameters = list(listed)
    return context.respond(
        200, render({"resourceType": "Parameters"} | ({"parameter": parameters} if parameters else {}))
    )
