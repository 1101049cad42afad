"""Everything that goes wrong at a flaky endpoint and may pass, by name; and a context window that is full."""

from __future__ import annotations

from tests.loopback import drip, empty_choices, half_closed, stall, status, truncated_json, wrong_content_type

FAULTS = {
    "429": status(429),
    "429 with Retry-After": status(429, retry_after=1),
    "500": status(500),
    "stall": stall(),
    "half-closed": half_closed(),
    "truncated JSON": truncated_json(),
    "empty choices": empty_choices(),
    "wrong content type": wrong_content_type(),
    "slow drip": drip(),
}
CONTEXT_FULL = status(
    400, message="This model's maximum context length is 8192 tokens.", code="context_length_exceeded", param="messages"
)
