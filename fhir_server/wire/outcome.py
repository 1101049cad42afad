"""OperationOutcomes as text, with HAPI's messages (observed in HAPI FHIR 7.6.0)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from json.encoder import encode_basestring

from fhir_server.errors import FhirError

_STORAGE_CODES = "https://hapifhir.io/fhir/CodeSystem/hapi-fhir-storage-response-code"


@dataclass(frozen=True, slots=True)
class Stored:
    """The report of a successful write: HAPI's storage response code, its display, and the diagnostics."""

    code: str
    display: str
    diagnostics: str
    severity: str = "information"
    kind: str = "informational"


def untimed(stored: Stored) -> Stored:
    """The report without the duration, which HAPI omits in some responses in Bundles."""
    return replace(stored, diagnostics=stored.diagnostics.removesuffix(" Took 1ms."))


def quoted(text: str) -> str:
    """A JSON string. Lone surrogates, which UTF-8 cannot encode, become question marks."""
    return encode_basestring(text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8"))


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


def created(reference: str) -> Stored:
    """A create by POST."""
    return Stored("SUCCESSFUL_CREATE", "Create succeeded.", f'Successfully created resource "{reference}". Took 1ms.')


def created_conditionally(reference: str, condition: str) -> Stored:
    """A create with If-None-Exist that matched nothing."""
    return Stored(
        "SUCCESSFUL_CREATE_NO_CONDITIONAL_MATCH",
        "Conditional create succeeded: no existing resource matched the conditional URL.",
        f'Successfully conditionally created resource "{reference}".'
        f' No existing resources matched URL "{condition}". Took 1ms.',
    )


def found_conditionally(reference: str, condition: str) -> Stored:
    """A create with If-None-Exist that matched a resource."""
    return Stored(
        "SUCCESSFUL_CREATE_WITH_CONDITIONAL_MATCH",
        "Conditional create succeeded: an existing resource matched the conditional URL so no action was taken.",
        f'Successfully conditionally created resource "{reference}". Existing resource matched URL "{condition}".',
    )


def created_by_update(reference: str) -> Stored:
    """A PUT that created the resource."""
    return Stored(
        "SUCCESSFUL_UPDATE_AS_CREATE",
        "Update as create succeeded.",
        f'Successfully created resource "{reference}" using update as create'
        " (ie. create with client assigned ID). Took 1ms.",
    )


def updated(reference: str) -> Stored:
    """A PUT that created a new version."""
    return Stored("SUCCESSFUL_UPDATE", "Update succeeded.", f'Successfully updated resource "{reference}". Took 1ms.')


def unchanged(reference: str) -> Stored:
    """A PUT of a resource without changes."""
    return Stored(
        "SUCCESSFUL_UPDATE_NO_CHANGE",
        "Update succeeded: No changes were detected so no action was taken.",
        f'Successfully updated resource "{reference}" with no changes detected. Took 1ms.',
    )


def updated_conditionally(reference: str, condition: str) -> Stored:
    """A conditional PUT that matched a resource."""
    return Stored(
        "SUCCESSFUL_UPDATE_WITH_CONDITIONAL_MATCH",
        "Conditional update succeeded: an existing resource matched the conditional URL and was updated.",
        f'Successfully conditionally updated resource "{reference}". Existing resource matched URL "{condition}".',
    )


def unchanged_conditionally(reference: str, condition: str) -> Stored:
    """A conditional PUT that matched a resource, without changes."""
    return Stored(
        "SUCCESSFUL_UPDATE_WITH_CONDITIONAL_MATCH_NO_CHANGE",
        "Conditional update succeeded: an existing resource matched the conditional URL and was updated,"
        " but no changes were detected so no action was taken.",
        f'Successfully conditionally updated resource "{reference}" with no changes detected.'
        f' Existing resource matched URL "{condition}".',
    )


def created_by_conditional_update(reference: str, condition: str) -> Stored:
    """A conditional PUT that matched nothing."""
    return Stored(
        "SUCCESSFUL_UPDATE_NO_CONDITIONAL_MATCH",
        "Conditional update succeeded: no existing resource matched the conditional URL so a new resource was created.",
        f'Successfully conditionally created resource "{reference}".'
        f' No existing resources matched URL "{condition}". Took 1ms.',
    )


def created_by_conditional_update_in_bundle(reference: str) -> Stored:
    """A conditional PUT in a transaction that matched nothing. HAPI does not replace the placeholder for the URL."""
    stored = created_by_conditional_update(reference, "")
    reason = 'Created resource because no existing resource matched URL "{1}".'
    text = f'Successfully conditionally updated resource "{reference}". {reason} Took 1ms.'
    return replace(stored, diagnostics=text)


def patched(reference: str) -> Stored:
    """A PATCH that created a new version."""
    return Stored("SUCCESSFUL_PATCH", "Patch succeeded.", f'Successfully patched resource "{reference}". Took 1ms.')


def patched_without_change(reference: str) -> Stored:
    """A PATCH that changed nothing."""
    return Stored(
        "SUCCESSFUL_PATCH_NO_CHANGE",
        "Patch succeeded: No changes were detected so no action was taken.",
        f'Successfully patched resource "{reference}" with no changes detected. Took 1ms.',
    )


def deleted(count: int) -> Stored:
    """A DELETE."""
    return Stored("SUCCESSFUL_DELETE", "Delete succeeded.", f"Successfully deleted {count} resource(s). Took 1ms.")


def already_deleted(reference: str) -> Stored:
    """A DELETE of a deleted resource. `reference` has the version of the first deletion."""
    return Stored(
        "SUCCESSFUL_DELETE_ALREADY_DELETED",
        "Delete succeeded: Resource was already deleted so no action was taken.",
        f"Not deleted, resource {reference} was already deleted.",
    )


def never_existed(reference: str) -> Stored:
    """A DELETE of a resource that never existed."""
    return Stored(
        "SUCCESSFUL_DELETE_NOT_FOUND",
        "Delete succeeded: No existing resource was found so no action was taken.",
        f"Not deleted, resource {reference} does not exist.",
    )


def nothing_matched(condition: str) -> Stored:
    """A conditional DELETE that matched nothing."""
    return Stored(
        "SUCCESSFUL_DELETE_NOT_FOUND",
        "Delete succeeded: No existing resource was found so no action was taken.",
        f'Unable to find resource matching URL "{condition}". Nothing has been deleted.',
        severity="warning",
        kind="not-found",
    )
