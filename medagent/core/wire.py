"""Secrets in URLs and headers, and where requests go."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from medagent.core.errors import UserError

_CREDENTIALS = re.compile(r"(?<=:)//([^/\s]*)@")  # up to the last @, like httpx
_SHOWN_CREDENTIALS = re.compile(r"(?<=:)//(?:[^/\s]*|[^/\s:@]*:(?!\d+/)\S*)@")
_GRANTS_ACCESS = r"(?:key|token|secret|sig|password|auth|credential|cookie)"
_SECRET_PARAMETER = re.compile(rf"([?&;][\w.-]*{_GRANTS_ACCESS}[\w.-]*=)([^&;#\s\"'<>]+)", re.IGNORECASE)


def without_password(text: str) -> str:
    """A text for display and storage: in its URLs, user and password become `***`, and so do the values of parameters
    that grant access, such as `?key=`. A password without the required quoting is hidden too.
    """
    return _SECRET_PARAMETER.sub(r"\1***", _SHOWN_CREDENTIALS.sub("//***@", text))


def grants_access(name: str) -> bool:
    """Whether the value of a header or parameter of this name is likely to be a secret."""
    return re.search(_GRANTS_ACCESS, name, re.IGNORECASE) is not None


def secret_for_header(place: str, text: str) -> str:
    """A key or token without blanks around it. Raises UserError if HTTP does not allow it in a header.

    The error names the place of the secret, and does not contain it.
    """
    secret = text.strip()
    if not (secret.isascii() and secret.isprintable()):
        raise UserError(
            f"{place} contains characters that are not allowed in a key or token (a line break, or letters outside "
            "ASCII)"
        )
    return secret


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: 127.0.0.0/8, ::1, or localhost."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def split_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """A URL without its credentials, and the credentials: user and password."""
    match = _CREDENTIALS.search(url)
    if match is None:
        return url, None
    user, _, password = match[1].partition(":")
    return url.replace(match[0], "//", 1), (unquote(user), unquote(password))


def secret_parameters(url: str) -> list[str]:
    """The unquoted values of a URL's parameters that grant access."""
    return [unquote(value) for _, value in _SECRET_PARAMETER.findall(url)]


def proxy_of(url: str) -> str:
    """The environment's proxy for a URL; empty if there is none."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    proxies = {} if proxy_bypass(parts.hostname or "") else getproxies()
    return proxies.get(parts.scheme) or proxies.get("all") or ""
