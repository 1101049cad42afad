"""Any FHIR R4 server over HTTP: HAPI, the benchmark's own image, this project's server on a port.

If a server is busy or unreachable (429, 502–504, refused connections, time-outs), requests are retried as with a
model's endpoint (`models/retry.py`). A write is retried only if the server cannot have carried it out, so that no order
is placed twice. All other replies, 4xx and 500 included, are its answer, unless they show that the server refuses the
run (401, 407, some 403), or that something else answers in its place, such as a login page. In a body, the server's own
base is replaced by the shown one; the rest is unchanged. Redirects are never followed, and a path that servers may
interpret in two ways is never sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from medagent.core.certificates import certificates
from medagent.core.errors import FhirUnavailableError, StopRunError, UserError
from medagent.core.fhir_token import renewing
from medagent.core.scrub import error_text, hide, remember
from medagent.core.wire import grants_access, split_credentials, without_password
from medagent.fhir_data.record import ONLY_EMBEDDED, EhrSession, FhirRequest, Reply, TooMuchError
from medagent.models.limiter import AdaptiveLimiter
from medagent.models.retry import EndpointFailure, Outage, Retries, RetryPolicy, call_with_retries, retry_after
from refsol.clinical.sources import Amendment
from refsol.json_values import as_object, json_value

if TYPE_CHECKING:
    import httpx

BUSY = frozenset({429, 502, 503, 504})
NOT_CARRIED_OUT = frozenset({429, 503})
"""Statuses after which a write may be retried. After a gateway's 502 or 504 it may have been carried out."""
NOT_FHIR = "does not answer with FHIR as JSON"
_LOGIN = "it requires a token; set MEDAGENT_FHIR_TOKEN_FILE or MEDAGENT_FHIR_TOKEN, then run the command again"
_RENEW = (
    "the token is not accepted (any more); renew it in the file of MEDAGENT_FHIR_TOKEN_FILE (or in "
    "MEDAGENT_FHIR_TOKEN), then run the command again to continue"
)
_REFUSALS = {401: _RENEW, 403: _RENEW, 407: "a proxy requires a login; correct the proxy, then run the command again"}
_PATIENTS_DATA = re.compile(r"/Patient(/_search)?(\?|$)|/[A-Za-z]+(/_search)?\?(.*&)?(patient|subject)[.:=]")
"""Searches that every run needs: of patients, and of one patient's data."""
ATTEMPT_S = 60.0
"""Seconds that one attempt may take, from first to last byte."""
MOST_AT_ONCE = 64
OUTAGE_S, OUTAGE_ATTEMPTS = 120.0, 20
"""The run stops if agents' requests have failed for this many seconds and attempts, without an answer between."""
MAX_BODY = 20_000_000


class HttpEhr:
    """A FHIR server at `url`. `shown` is the base that agents see. With `hides_targets`, errors name only the type of a
    resource, as its id or a search may name a patient. Use it as an async context manager.
    """

    def __init__(
        self,
        url: str,
        shown: str,
        *,
        headers: Mapping[str, str] | None = None,
        ca_file: Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        hides_targets: bool = False,
    ) -> None:
        import ssl

        import httpx

        check_base(url)
        self.url, credentials = split_credentials(url.rstrip("/"))
        remember_access(credentials, headers or {})
        auth = renewing() or credentials
        self._sends_secret = auth is not None or any(map(grants_access, headers or {}))
        self._shown = shown.rstrip("/")
        self._hides = hides_targets
        self._own_base = re.compile(re.escape(self.url) + r'(?=[/?#"])')
        self._limiter = AdaptiveLimiter(MOST_AT_ONCE)
        self._outage = Outage(OUTAGE_S, OUTAGE_ATTEMPTS)
        self._admitted = False
        """Whether a request of an episode succeeded: then a 403 may be about one resource."""
        try:
            verify = ssl.create_default_context(cafile=ca_file) if ca_file else certificates()
        except OSError as error:
            raise UserError(f"{ca_file}: is not a usable CA file: {error}") from None
        self._client = httpx.AsyncClient(
            headers={"Accept": "application/fhir+json", **(headers or {})},
            auth=auth,
            verify=verify,
            timeout=httpx.Timeout(ATTEMPT_S, connect=10.0),
            limits=httpx.Limits(max_connections=MOST_AT_ONCE),
            transport=transport,
        )

    async def __aenter__(self) -> HttpEhr:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def session(self, seed: str, change: Amendment = (), chart: str = "") -> AsyncIterator[EhrSession]:
        """A session on the shared server: no part of it is private to an episode. Raises UserError for an
        item that changes the data.
        """
        if change or chart:
            raise UserError(ONLY_EMBEDDED)
        yield _HttpSession(self)

    async def check(self) -> None:
        """Raises UserError with URL and reason if the server does not say what it can do."""
        await self.capabilities()

    async def capabilities(self) -> dict[str, Any]:
        """The server's CapabilityStatement. Raises UserError with URL and reason if it does not come."""
        import httpx

        try:
            response = await self._client.get(f"{self.url}/metadata")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UserError(f"FHIR server {self.shown_url} does not answer: {_reason(error)}") from None
        if response.status_code in _REFUSALS:
            raise UserError(self._refusal(response.status_code))
        if response.status_code != 200:
            raise UserError(
                f"FHIR server {self.shown_url} answers {response.status_code} to /metadata; "
                "correct the URL, which must be the base of a FHIR R4 server"
            )
        statement = as_object(json_value(response.content))
        if statement.get("resourceType") != "CapabilityStatement":
            raise UserError(
                f"FHIR server {self.shown_url}: /metadata {NOT_FHIR} (a CapabilityStatement); "
                "correct the URL, which must be the base of a FHIR R4 server"
            )
        return statement

    @property
    def shown_url(self) -> str:
        """The address without credentials."""
        return without_password(self.url)

    def _refusal(self, status: int) -> str:
        advice = _LOGIN if status != 407 and not self._sends_secret else _REFUSALS[status]
        return f"FHIR server {self.shown_url} answers {status}: {advice}"

    async def answer(self, request: FhirRequest) -> Reply:
        """The reply to a request of an episode. Raises the errors of `send`; StopRunError if the server refuses the
        run; FhirUnavailableError if something else answers, such as a login page.
        """
        reply = await self.send(request)
        needed = request.method == "GET" and _PATIENTS_DATA.match(request.target)
        if reply.status in (401, 407) or (reply.status == 403 and (needed or not self._admitted)):
            raise StopRunError(self._refusal(reply.status))
        if 300 <= reply.status < 400 or (reply.ok and _is_foreign(request, reply)):
            raise FhirUnavailableError(f"{self._named(request)}: the server {NOT_FHIR} ({reply.status})")
        self._admitted |= reply.ok
        return reply

    async def send(self, request: FhirRequest) -> Reply:
        """One request with its retries.

        Raises FhirUnavailableError if all retries failed, or if a write may have been carried out; StopRunError if the
        server has been unreachable for minutes; TooMuchError if the body is too large.
        """
        return await call_with_retries(
            lambda: self._outage.watch(self._attempt(request)),
            limiter=self._limiter,
            retries=Retries(RetryPolicy(), FhirUnavailableError, f"{self._named(request)}: no answer"),
        )

    async def _attempt(self, request: FhirRequest) -> Reply:
        """One attempt. Raises EndpointFailure if it may be repeated."""
        import httpx

        never_sent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        method, url = request.method, self.url + request.target
        body, headers = request.body.encode() or None, list(request.headers)
        seconds, throttled = None, False
        try:
            async with (
                asyncio.timeout(ATTEMPT_S),
                self._client.stream(method, url, content=body, headers=headers) as response,
            ):
                status = response.status_code
                if status not in BUSY:
                    return self._reply(response, await _read(response))
                problem, again = f"status {status}", status in NOT_CARRIED_OUT
                seconds, throttled = retry_after(response.headers), status == 429
        except httpx.InvalidURL as error:
            return Reply(400, "", str(error))
        except httpx.HTTPError as error:
            problem, again = _reason(error), isinstance(error, never_sent)
        except TimeoutError:
            problem, again = f"no complete answer in {ATTEMPT_S:g} s", False
        words = f"{self._named(request)}: {error_text(problem, longest=200)}"
        if method != "GET" and not again:
            raise FhirUnavailableError(f"{words}: it may or may not have been carried out")
        raise EndpointFailure(words, retry_after=seconds, throttled=throttled)

    def _named(self, request: FhirRequest) -> str:
        """A request in an error."""
        target = hidden(request.target) if self._hides else request.target
        return error_text(f"{request.method} {self.url}{target}", longest=300)

    def _reply(self, response: httpx.Response, body: bytes) -> Reply:
        text = body.decode(response.charset_encoding or "utf-8", "replace")
        return Reply(response.status_code, self._own_base.sub(lambda _: self._shown, hide(text)), _phrase(response))


class _HttpSession:
    fixed = False

    def __init__(self, ehr: HttpEhr) -> None:
        self._ehr = ehr

    def reset(self) -> None:
        """Does nothing: all episodes share the server's data."""

    async def get(self, target: str) -> Reply:
        return await self.write(FhirRequest("GET", target))

    async def write(self, request: FhirRequest) -> Reply:
        problem = ambiguous(request.target)
        return await self._ehr.answer(request) if problem is None else Reply(400, "", problem)

    async def preview(self, target: str, body: str) -> Reply | None:
        """Returns None: an external server carries out each request."""
        return None

    def changes(self) -> None:
        """Returns None: only the replies are known."""


def check_base(url: str) -> None:
    """Raises UserError if an address is not a FHIR base."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UserError(f"{without_password(url)}: is not a FHIR base; write one such as http://localhost:8080/fhir")


def remember_access(credentials: tuple[str, str] | None, headers: Mapping[str, str]) -> None:
    """Have a server's credentials hidden in all output, in case the server repeats them."""
    secrets = [value.rpartition(" ")[2] for name, value in headers.items() if grants_access(name)]
    for secret in (*secrets, *([credentials[1]] if credentials else [])):
        remember(secret)


def ambiguous(target: str) -> str | None:
    """Why a path is not sent: a server might read it differently from the check and leave its base. None if it is safe.

    The escapes of each segment are decoded (RFC 3986, 2.1). A segment is refused if its decoded text could be decoded
    or split again: slashes, parameters (`;`), dots, and escapes of escapes.
    """
    for segment in target.partition("?")[0].split("/"):
        plain = unquote(segment, errors="replace")
        ambiguity = next((name for name, form in _AMBIGUOUS.items() if form.search(plain)), None)
        if ambiguity is not None:
            return f"the path is not sent, as servers differ in how they read {ambiguity} in it"
    return None


def _is_foreign(request: FhirRequest, reply: Reply) -> bool:
    """Whether a good reply is not JSON, although the request does not ask for another format."""
    formats = [value for name, value in parse_qsl(request.target.partition("?")[2]) if name == "_format"]
    if not all("json" in value for value in formats) or (request.method != "GET" and not reply.text):
        return False
    return not reply.text.lstrip().startswith("{")


def hidden(target: str) -> str:
    """A path and query without what may name a patient: `/Observation…`."""
    kind = re.match(r"/?[A-Za-z]*", target)
    shown = "" if kind is None else kind[0]
    return shown if shown == target else f"{shown}…"


_AMBIGUOUS = {
    "an escaped slash": re.compile(r"[/\\]"),
    "a parameter (;)": re.compile(";"),
    "dots": re.compile(r"^\.{1,2}$"),
    "an escape of an escape": re.compile("%[0-9a-fA-F]{2}"),
    "control characters": re.compile(r"[\x00-\x1f\x7f]"),
    "bytes that are not UTF-8": re.compile("\ufffd"),
}


async def _read(response: httpx.Response) -> bytes:
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_BODY:
            raise TooMuchError("the answer is over 20 MB; ask for less, for instance by _count")
        chunks.append(chunk)
    return b"".join(chunks)


def _phrase(response: httpx.Response) -> str:
    """The reason phrase that the server sent; httpx invents one if there is none."""
    phrase = response.extensions.get("reason_phrase")
    return phrase.decode("ascii", "replace") if isinstance(phrase, bytes) else ""


def _reason(error: Exception) -> str:
    """Why a server did not answer, without the HTTP library's sentences."""
    text = str(error)
    if "connection attempts failed" in text or "refused" in text:
        return "no server listens at that address; start the server, or correct the URL"
    if "getaddrinfo" in text or "not known" in text:
        return "the host is not known"
    return text or type(error).__name__
