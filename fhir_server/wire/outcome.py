"""OperationOutcomes as text, with HAPI's messages (observed in HAPI FHIR 7.6.0)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from json.encoder import encode_basestring

from fhir_server.errors import FhirError
from fhir_server.wire.http import CONTENT_TYPE, Response

_STORAGE_CODES = "https://hapifhir.io/fhir/CodeSystem/hapi-fhir-storage-response-code"


@dataclass(frozen=True, slots=True)
class Stored:
    """The report of a successful write: HAPI's storage response code, its display, and the diagnostics.

    In the reports of this module, `{0}` in the diagnostics is the reference and `{1}` the condition.
    """

    code: str
    display: str
    diagnostics: str
    severity: str = "information"
    kind: str = "informational"

    def __call__(self, reference: object, condition: str = "") -> Stored:
        """The report for a reference (for a delete: the number of resources) and a condition."""
        return replace(self, diagnostics=self.diagnostics.format(reference, condition))


def untimed(stored: Stored) -> Stored:
    """The report without the duration, which HAPI omits in some responses in Bundles."""
    return replace(stored, diagnostics=stored.diagnostics.removesuffix(" Took 1ms."))


def quoted(text: str) -> str:
    """A JSON string."""
    return encode_basestring(text)


def error_outcome(error: FhirError, code: str | None = None) -> str:
    """The body of an error response."""
    return _outcome("error", code or error.code, "", error.diagnostics)


def stored_outcome(stored: Stored) -> str:
    """The body of a successful write, or the outcome of its entry in a transaction."""
    details = f"""
    "details": {{
      "coding": [ {{
        "system": "{_STORAGE_CODES}",
        "code": "{stored.code}",
        "display": {quoted(stored.display)}
      }} ]
    }},"""
    return _outcome(stored.severity, stored.kind, details, stored.diagnostics)


def _outcome(severity: str, code: str, details: str, diagnostics: str) -> str:
    return f"""{{
  "resourceType": "OperationOutcome",
  "issue": [ {{
    "severity": "{severity}",
    "code": "{code}",{details}
    "diagnostics": {quoted(diagnostics)}
  }} ]
}}"""


created = Stored("SUCCESSFUL_CREATE", "Create succeeded.", 'Successfully created resource "{0}". Took 1ms.')
"""A create by POST."""
created_conditionally = Stored(
    "SUCCESSFUL_CREATE_NO_CONDITIONAL_MATCH",
    "Conditional create succeeded: no existing resource matched the conditional URL.",
    'Successfully conditionally created resource "{0}". No existing resources matched URL "{1}". Took 1ms.',
)
"""A create with If-None-Exist that matched nothing."""
found_conditionally = Stored(
    "SUCCESSFUL_CREATE_WITH_CONDITIONAL_MATCH",
    "Conditional create succeeded: an existing resource matched the conditional URL so no action was taken.",
    'Successfully conditionally created resource "{0}". Existing resource matched URL "{1}".',
)
"""A create with If-None-Exist that matched a resource."""
created_by_update = Stored(
    "SUCCESSFUL_UPDATE_AS_CREATE",
    "Update as create succeeded.",
    'Successfully created resource "{0}" using update as create (ie. create with client assigned ID). Took 1ms.',
)
"""A PUT that created the resource."""
updated = Stored("SUCCESSFUL_UPDATE", "Update succeeded.", 'Successfully updated resource "{0}". Took 1ms.')
"""A PUT that created a new version."""
unchanged = Stored(
    "SUCCESSFUL_UPDATE_NO_CHANGE",
    "Update succeeded: No changes were detected so no action was taken.",
    'Successfully updated resource "{0}" with no changes detected. Took 1ms.',
)
"""A PUT of a resource without changes."""
updated_conditionally = Stored(
    "SUCCESSFUL_UPDATE_WITH_CONDITIONAL_MATCH",
    "Conditional update succeeded: an existing resource matched the conditional URL and was updated.",
    'Successfully conditionally updated resource "{0}". Existing resource matched URL "{1}".',
)
"""A conditional PUT that matched a resource."""
unchanged_conditionally = Stored(
    "SUCCESSFUL_UPDATE_WITH_CONDITIONAL_MATCH_NO_CHANGE",
    "Conditional update succeeded: an existing resource matched the conditional URL and was updated,"
    " but no changes were detected so no action was taken.",
    'Successfully conditionally updated resource "{0}" with no changes detected. Existing resource matched URL "{1}".',
)
"""A conditional PUT that matched a resource, without changes."""
created_by_conditional_update = Stored(
    "SUCCESSFUL_UPDATE_NO_CONDITIONAL_MATCH",
    "Conditional update succeeded: no existing resource matched the conditional URL so a new resource was created.",
    'Successfully conditionally created resource "{0}". No existing resources matched URL "{1}". Took 1ms.',
)
"""A conditional PUT that matched nothing."""
created_by_conditional_update_in_bundle = replace(
    created_by_conditional_update,
    diagnostics='Successfully conditionally updated resource "{0}".'
    ' Created resource because no existing resource matched URL "{{1}}". Took 1ms.',
)
"""A conditional PUT in a transaction that matched nothing. HAPI does not replace the placeholder for the URL."""
patched = Stored("SUCCESSFUL_PATCH", "Patch succeeded.", 'Successfully patched resource "{0}". Took 1ms.')
"""A PATCH that created a new version."""
patched_without_change = Stored(
    "SUCCESSFUL_PATCH_NO_CHANGE",
    "Patch succeeded: No changes were detected so no action was taken.",
    'Successfully patched resource "{0}" with no changes detected. Took 1ms.',
)
"""A PATCH that changed nothing."""
patched_conditionally = Stored(
    "SUCCESSFUL_CONDITIONAL_PATCH",
    "Conditional patch succeeded.",
    "Successfully conditionally patched resource. Existing resource {0} matched URL: {1}. Took 1ms.",
)
"""A conditional PATCH that created a new version."""
patched_conditionally_without_change = Stored(
    "SUCCESSFUL_CONDITIONAL_PATCH_NO_CHANGE",
    "Conditional patch succeeded: No changes were detected so no action was taken.",
    "Successfully conditionally patched resource with no changes detected."
    " Existing resource {0} matched URL: {1}. Took 1ms.",
)
"""A conditional PATCH that changed nothing."""
deleted = Stored("SUCCESSFUL_DELETE", "Delete succeeded.", "Successfully deleted {0} resource(s). Took 1ms.")
"""A DELETE."""
already_deleted = Stored(
    "SUCCESSFUL_DELETE_ALREADY_DELETED",
    "Delete succeeded: Resource was already deleted so no action was taken.",
    "Not deleted, resource {0} was already deleted.",
)
"""A DELETE of a deleted resource. The reference contains the version of the first deletion."""
never_existed = Stored(
    "SUCCESSFUL_DELETE_NOT_FOUND",
    "Delete succeeded: No existing resource was found so no action was taken.",
    "Not deleted, resource {0} does not exist.",
)
"""A DELETE of a resource that never existed."""
nothing_matched = replace(
    never_existed,
    diagnostics='Unable to find resource matching URL "{0}". Nothing has been deleted.',
    severity="warning",
    kind="not-found",
)
"""A conditional DELETE that matched nothing, with the condition instead of a reference."""


def refused(error: FhirError) -> Response:
    """The reply to a refused request."""
    headers = [("Content-Type", CONTENT_TYPE)]
    if error.status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    return Response(error.status, headers, error_outcome(error).encode())
