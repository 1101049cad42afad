"""The connection to an endpoint: an HTTP client, and the replicas with their URLs, headers and keys.

The client is `openai.DefaultAioHttpClient` (httpx over aiohttp). Its method `send` is the last step before a request
leaves, so it decides what leaves: the headers of this endpoint and no others, to this endpoint and nowhere else.
"""

from __future__ import annotations

import logging
import zlib
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import httpx
import openai
from aiohttp.http_exceptions import HttpProcessingError

from medagent.core.certificates import certificates
from medagent.core.errors import UserError
from medagent.core.scrub import hide, remember
from medagent.core.version import __version__
from medagent.core.wire import proxy_of, secret_parameters, split_credentials, without_password
from medagent.models.dialects.base import OPENAI, Dialect
from medagent.models.keys import assign_keys, base_urls, key_of, origin
from medagent.models.settings import ModelSettings

CONNECT_TIMEOUT_S = 20.0
KEEP_ALIVE_S = 4.0
"""Seconds for which an idle connection may be reused: less than the 5 s after which vLLM's server closes it."""
_PLAIN_HEADERS: Mapping[str, Any] = {
    "Accept": "application/json",
    "Content-Type": "application/json",
    "User-Agent": f"medagent/{__version__}",
}
_OF_THE_CONTENT = ("host", "content-type", "content-length", "transfer-encoding")
"""The headers of a request that depend on its content, not on the endpoint."""
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.ConnectionTimeoutError)
"""Errors of a connection, before a request was sent."""
_WRONG_ADDRESS = (aiohttp.ClientConnectorDNSError, aiohttp.ClientSSLError)
"""Errors that repeating the request does not cure."""
_OF_THE_TRANSFER = (b"content-encoding", b"content-length", b"transfer-encoding")


class _Scrubbed(logging.Filter):
    """Hides the keys in what the packages log of a request: its URL may contain one."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = hide(record.getMessage()), ()
        return True


for _name in ("httpx", "httpx2", "openai._base_client"):
    logging.getLogger(_name).addFilter(_Scrubbed())


class NoReplyError(openai.APIConnectionError):
    """A request did not get a reply. The text gives the reason."""

    def __init__(self, words: str, request: Any) -> None:
        super().__init__(message=words, request=request)


class NotSentError(NoReplyError):
    """The request did not leave, because there was no connection to its endpoint."""


class NobodyListensError(NotSentError):
    """The connection was refused, its host is not known or does not speak TLS, or its certificate is not trusted."""


class CutOffError(NoReplyError):
    """A reply began with a status of success, but did not arrive whole. `received` are the bytes that arrived."""

    def __init__(self, words: str, request: Any, received: int) -> None:
        super().__init__(words, request)
        self.received = received


class TooLongError(CutOffError):
    """A reply exceeds the size limit."""


class ForeignHostError(NoReplyError):
    """A request goes to a host that the user did not name."""


class EndpointClient(openai.DefaultAioHttpClient):
    """An HTTP client for one origin. Redirects are not followed, because they would forward the key.

    Every failure to get a reply is a NoReplyError.
    """

    def __init__(self, place: str, timeout_s: float, longest: int) -> None:
        super().__init__(
            timeout=openai.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S), pool=None),
            # 0: aiohttp then sets no limit of its own; the limiter limits the connections.
            limits=type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=0, keepalive_expiry=KEEP_ALIVE_S),
            verify=certificates(),
            follow_redirects=False,
        )
        self.own_headers: dict[str, str] = {}
        self._place = place
        self._longest = longest

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """See `httpx.AsyncClient.send`. Without `stream`, and if it is an error, the reply is read up to a limit."""
        if origin(str(request.url)) != self._place:
            raise ForeignHostError(f"a request to {request.url.host}, not to {self._place}", request)
        content = {name: request.headers[name] for name in _OF_THE_CONTENT if name in request.headers}
        request.headers = type(request.headers)(self.own_headers)
        request.headers.update(content)
        with connection_errors(request):
            response = await super().send(request, stream=True, **options)
            return response if stream and response.is_success else await _read(response, self._longest)


class GuardedClient(httpx.AsyncClient):
    """A client for libraries that build their own requests. It sends only to some hosts, even if a reply redirects
    elsewhere, and reads replies up to `longest` bytes.
    """

    def __init__(self, hosts: Collection[str], timeout_s: float, longest: int) -> None:
        super().__init__(timeout=timeout_s, verify=certificates(), follow_redirects=False)
        self._hosts = hosts
        self._longest = longest

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        """See `httpx.AsyncClient.send`. Raises ForeignHostError, TooLongError."""
        host = request.url.host
        if host not in self._hosts:
            words = f"a request to {host}, which was not named; allow it with --allow-host {host}"
            raise ForeignHostError(words, request)
        response: httpx.Response = await _read(await super().send(request, stream=True, **options), self._longest)
        return response


async def _read(response: Any, longest: int) -> Any:
    """The whole response, decompressed. Raises TooLongError as soon as it exceeds the limit."""
    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > longest:
                words = f"the answer is longer than {longest:,} bytes (max_reply_bytes)"
                raise TooLongError(words, response.request, response.num_bytes_downloaded)
    except Exception as error:
        await response.aclose()
        if not response.is_success or isinstance(error, NoReplyError):
            raise
        words = _words(error.__cause__ or error)
        raise CutOffError(words, response.request, response.num_bytes_downloaded) from error
    except BaseException:  # it was cancelled: the connection cannot be used again
        await response.aclose()
        raise
    headers = [header for header in response.headers.raw if header[0].lower() not in _OF_THE_TRANSFER]
    return type(response)(
        response.status_code,
        headers=headers,
        content=bytes(content),
        request=response.request,
        extensions=response.extensions,
    )


@contextmanager
def connection_errors(request: Any) -> Iterator[None]:
    """Every failure to get a reply becomes a NoReplyError, which `openai` passes on."""
    try:
        yield
    except openai.OpenAIError:
        raise
    except Exception as error:  # of httpx or httpx2, with aiohttp's as its cause, or aiohttp's own
        cause = error.__cause__ or error
        checks = (_refused, _closed_in_handshake, _speaks_tls)
        nobody = isinstance(cause, _WRONG_ADDRESS) or any(holds(cause) for holds in checks)
        kind: type[NoReplyError] = NotSentError if isinstance(cause, _NOT_SENT) else NoReplyError
        if nobody:
            kind = NobodyListensError
        raise kind(_words(cause), request) from error


def _refused(error: BaseException) -> bool:
    return isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError)


def _closed_in_handshake(error: BaseException) -> bool:
    """Whether the server ended the connection instead of the TLS handshake, as many plain ports do."""
    return (
        isinstance(error, aiohttp.ClientConnectorError)
        and error.args[0].is_ssl
        and isinstance(error.os_error, ConnectionResetError | BrokenPipeError)
    )


def _speaks_tls(error: BaseException) -> bool:
    """Whether the port answered a plain request with an alert of TLS."""
    return isinstance(error, aiohttp.ClientResponseError | HttpProcessingError) and r"b'\x15\x03" in error.message


def _words(error: BaseException) -> str:
    """Why the reply is missing, in plain words instead of aiohttp's."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host {error.host} is not known; correct the base URL"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        return f"the certificate of {error.host} is not trusted: {reason}; set SSL_CERT_FILE to a file with its issuer"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"{error.host}:{error.port} does not speak TLS; correct the base URL (http:// instead of https://?)"
    if isinstance(error, aiohttp.ClientConnectorError):
        if _closed_in_handshake(error):
            place = f"{error.host}:{error.port}"
            return f"{place} ended the TLS handshake; correct the base URL (http:// instead of https://?)"
        if _refused(error):
            return f"nothing listens on {error.host}:{error.port}; start the server, or correct the base URL"
        return f"no connection to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection before it answered"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer ended before it was complete"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}: {error.message}"
    if _speaks_tls(error):
        return "the port speaks TLS; begin the base URL with https://"
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        # Only the message: the full text would contain the request's headers, and so the key.
        return f"the answer is not HTTP: {error.message}"
    if isinstance(error, zlib.error):
        return f"the answer cannot be decompressed: {error}"
    return str(error) or type(error).__name__


@dataclass(frozen=True, slots=True)
class Replica:
    """The target of requests. `shown` is the base URL without secrets. `key_advice` is the advice for a 401."""

    http: EndpointClient
    client: openai.AsyncOpenAI
    url: str
    shown: str
    key_advice: str

    async def post(self, content: bytes) -> Any:
        """Send one request. Returns the response, whatever its status. Raises NoReplyError."""
        return await self.http.post(self.url, content=content)


def open_replicas(settings: ModelSettings, dialect: Dialect, environment: Mapping[str, str]) -> list[Replica]:
    """The replicas of an endpoint. From now on, their keys are hidden in everything written.

    Raises UserError if neither a key nor a base URL identifies the endpoint, and for an unusable proxy.
    """
    (settings,) = assign_keys([settings], environment)
    urls = base_urls(settings, environment)
    vendor = dialect.vendor
    if urls == [vendor.base_url] and not settings.api_key_env[origin(vendor.base_url)]:
        raise UserError(
            f"model {settings.name}: set {vendor.key_variable}, "
            f"or {vendor.base_url_variable} for an endpoint of your own"
        )
    return [_replica(url, settings, dialect, environment) for url in urls]


def _replica(base_url: str, settings: ModelSettings, dialect: Dialect, environment: Mapping[str, str]) -> Replica:
    place = origin(base_url)
    variable = settings.api_key_env[place]
    address, credentials = split_credentials(base_url)
    url = httpx.URL(address)
    _check_proxy(url)
    for secret in secret_parameters(base_url):
        remember(secret)
    http = EndpointClient(place, settings.timeout_s, settings.max_reply_bytes)
    client = openai.AsyncOpenAI(
        base_url=str(url.copy_with(query=None)),
        default_query=dict(url.params),
        api_key="unused",  # the package requires one; `own_headers` contains the real one
        http_client=http,
        max_retries=0,
    )
    # What else the package reads from the environment (organization, project, headers) belongs to an OpenAI account.
    account = client.default_headers if place == origin(OPENAI.base_url) else _PLAIN_HEADERS
    http.own_headers |= {name: value for name, value in account.items() if isinstance(value, str)}
    http.own_headers |= {"Accept-Encoding": "gzip, deflate", **dict(dialect.headers)}
    if credentials:
        login = b64encode(":".join(credentials).encode()).decode()
        remember(credentials[1])
        remember(login)
        http.own_headers["Authorization"] = f"Basic {login}"
    elif variable:
        key = key_of(variable, environment)
        remember(key)
        http.own_headers |= dialect.key_header(key)
    host = place.partition("://")[2]
    return Replica(
        http,
        client,
        str(url.copy_with(path=dialect.path(url.path.rstrip("/")))),
        without_password(base_url),
        f"the key of {variable} was sent"
        if variable
        else f"no key was sent; name its variable with --api-key-env {host}=NAME",
    )


def _check_proxy(url: httpx.URL) -> None:
    """Raises UserError if the environment's proxy for a URL cannot be used."""
    address = proxy_of(str(url))
    if not address:
        return
    try:
        proxy = httpx.Proxy(address)
        user, password = proxy.auth or ("", "")
        if ":" in user:
            raise ValueError
        f"{user}{password}".encode("latin-1")
    except (ValueError, httpx.InvalidURL):
        raise UserError(
            f"the environment's proxy for {url.host} cannot be used: its URL is damaged, its user name contains "
            "a colon, or its login contains characters outside Latin-1"
        ) from None
    if proxy.url.scheme not in ("http", "https"):
        raise UserError(
            f"the environment's proxy for {url.host} is {proxy.url.scheme}://, but only http proxies are supported"
        )
