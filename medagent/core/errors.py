"""The errors of medagent, in one small tree.

`UserError` is an error that the user can fix: the CLI prints its one line and exits with 1. `EpisodeError` ends one
episode and states whose failure it was (its `status` goes into the journal). It is never scored as a wrong answer.
"""

from __future__ import annotations

from typing import Literal

EpisodeStatus = Literal[
    "model_error",
    "refused",
    "context_limit",
    "fhir_error",
    "time_limit",
    "token_limit",
    "cost_limit",
    "chart_changed",
]


NOT_SHOWN = "its text is not shown, as it may quote a chart"


class MedagentError(Exception):
    """Base class of medagent's errors. `unquoted` is the text without the words of a server, which may quote a chart.
    If it is not passed, it is the text.
    """

    def __init__(self, text: str = "", *, unquoted: str = "") -> None:
        super().__init__(text)
        self.unquoted = unquoted or text


class UserError(MedagentError):
    """Wrong input, settings or environment. The text is one line: file, place, and what to do."""


class EpisodeError(MedagentError):
    """Ends one episode from outside its session. `status` is the episode's status. `retries` and `waited` are the
    number of repeated attempts and the seconds between them. `paid` is a paid but unusable completion, if any.
    """

    status: EpisodeStatus = "model_error"

    def __init__(
        self, reason: str, *, retries: int = 0, waited: float = 0.0, paid: object = None, unquoted: str = ""
    ) -> None:
        super().__init__(reason, unquoted=unquoted)
        self.retries = retries
        self.waited = waited
        self.paid = paid


class ModelError(EpisodeError):
    """The model endpoint failed after its retries, or rejected this request."""


class RefusedError(EpisodeError):
    """The provider's content filter rejected the request or withheld the reply."""

    status: EpisodeStatus = "refused"


class ContextLimitError(EpisodeError):
    """The conversation no longer fits the model's context window."""

    status: EpisodeStatus = "context_limit"


class UnitLimitError(EpisodeError):
    """The unit exceeded its limit of time, tokens or money. `status` names the limit."""

    def __init__(self, status: EpisodeStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class FhirUnavailableError(EpisodeError):
    """The FHIR server could not be reached, or kept failing after the retries."""

    status: EpisodeStatus = "fhir_error"


class ChartChangedError(EpisodeError):
    """A hospital's chart is not as the item expects anymore: the item cannot be graded."""

    status: EpisodeStatus = "chart_changed"


class SessionEndedError(MedagentError):
    """An action after the end of an episode, or before its start."""


class StopRunError(MedagentError):
    """The whole run must stop at once (a rejected key, an unknown model). The text contains the provider's message."""


class ExecutorLostError(MedagentError):
    """The executor of the units (a cluster's scheduler) is lost. The run stops; it can continue when it is back."""
