"""OperationOutcomes, with HAPI's texts (observed on HAPI FHIR 7.6.0), as text ready to send."""

from __future__ import annotations

from dataclasses import dataclass, replace
from json.encoder import encode_basestring

from fhir_server.errors import FhirError

_STORAGE_CODES = "https://hapifhir.io/fhir/CodeSystem/hapi-fhir-storage-response-code"


@dataclass(frozen=True, slots=True)
class Stored:
    """What a successful write reports: HAPI's storage response code, its display, and the diagnostics."""

    code: str
    display: str
    diagnostics: str
    severity: str = "information"
    kind: str = "informational"


def untimed(stored: Stored) -> Stored:
    """The report without how long the write took, which HAPI leaves out of some answers in Bundles."""
    return replace(stored, diagnostics=stored.diagnostics.removesuffix(" Took 1ms."))


def quoted(text: str) -> str:
    """A JSON string; lone surrogates, which UTF-8 cannot carry, become question marks."""
    return encode_basestring(text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8"))


def error_outcome(error: FhirError, code: str | None = None) -> str:
    """The body of an error answer."""
    return _outcome("error", code or error.code, "", error.diagnostics)


def stored_outcome(stored: Stored) -> str:
    """The body, or a transaction entry's outcome, of a write that succeeded."""
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
    """A PUT of a resource that was not there."""
    return Stored(
        "SUCCESSFUL_UPDATE_AS_CREATE",
        "Update as create succeeded.",
        f'Successfully created resource "{reference}" using update as create'
        " (ie. create with client assigned ID). Took 1ms.",
    )


def updated(reference: str) -> Stored:
    """A PUT that made a new version."""
    return Stored("SUCCESSFUL_UPDATE", "Update succeeded.", f'Successfully updated resource "{reference}". Took 1ms.')


def unchanged(reference: str) -> Stored:
    """A PUT of what was there already."""
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
    """A conditional PUT of what was there already."""
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
    """The same in a transaction; the URL is a place holder that HAPI forgets to fill."""
    stored = created_by_conditional_update(reference, "")
    reason = 'Created resource because no existing resource matched URL "{1}".'
    text = f'Successfully conditionally updated resource "{reference}". {reason} Took 1ms.'
    return replace(stored, diagnostics=text)


def patched(reference: str) -> Stored:
    """A PATCH that made a new version."""
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
    """A DELETE of what was deleted before; `reference` names the version of the deletion."""
    return Stored(
        "SUCCESSFUL_DELETE_ALREADY_DELETED",
        "Delete succeeded: Resource was already deleted so no action was taken.",
        f"Not deleted, resource {reference} was already deleted.",
    )


def never_existed(reference: str) -> Stored:
    """A DELETE of what never was."""
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
