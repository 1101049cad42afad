"""Which key each endpoint gets: the one meant for it, and no other.

A key is identified by its environment variable. The user can name one for a base URL or a host (`--api-key-env`).
Otherwise `OPENAI_API_KEY` goes to one origin (scheme, host, port): the origin of `OPENAI_BASE_URL` if it is set, else
api.openai.com if an endpoint of the run is there, else the first endpoint's. The same holds for `ANTHROPIC_API_KEY`.
All other endpoints get no key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from medagent.core.errors import UserError
from medagent.core.wire import secret_for_header, without_password
from medagent.models.dialects import dialect
from medagent.models.dialects.base import Vendor
from medagent.models.settings import ModelSettings

FIRST = ""
"""The key in `ModelSettings.api_key_env` for the first base URL."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class KeyUse:
    """The key of one origin: the variable (None: no key), and the masked key."""

    origin: str
    variable: str | None
    masked: str = ""


def assign_keys(models: Sequence[ModelSettings], environment: Mapping[str, str]) -> list[ModelSettings]:
    """The settings of a run's models, with a variable (or "" for no key) for each origin in `api_key_env`.

    Pass all endpoints of a run together, the answering model first, because a vendor's key goes to only one of them.
    Doing it again changes nothing. Raises UserError if a variable named by the user is not set.
    """
    homes = {vendor: _home(vendor, models, environment) for vendor in map(_vendor, models)}
    return [_assigned(model, homes[_vendor(model)], environment) for model in models]


def key_uses(models: Sequence[ModelSettings], environment: Mapping[str, str]) -> list[KeyUse]:
    """The key of each origin of a run, for people to read. Raises UserError like `assign_keys`."""
    uses: dict[tuple[str, str], KeyUse] = {}
    for model in assign_keys(models, environment):
        for place, variable in model.api_key_env.items():
            uses[place, variable] = KeyUse(place, variable or None, _masked(environment.get(variable, "")))
    return list(uses.values())


def base_urls(model: ModelSettings, environment: Mapping[str, str]) -> list[str]:
    """The base URLs of a model's endpoint: its own, else the environment's, else the vendor's."""
    vendor = _vendor(model)
    return model.base_urls or [environment.get(vendor.base_url_variable, "").strip().rstrip("/") or vendor.base_url]


def located(model: ModelSettings, environment: Mapping[str, str]) -> ModelSettings:
    """The settings with the base URLs of this process, so that they mean the same in another process."""
    return model.model_copy(update={"base_urls": base_urls(model, environment)})


def origin(url: str) -> str:
    """Scheme, host and port of a URL, without the scheme's default port. Raises UserError if it is not a URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or parts.scheme not in _PORTS:
        raise UserError(f"base URL {without_password(url)!r}: it must be http:// or https:// and a host")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + ("" if port in (None, _PORTS.get(parts.scheme)) else f":{port}")


def key_of(variable: str, environment: Mapping[str, str]) -> str:
    """The key in a variable. Raises UserError if it cannot be sent in an HTTP header."""
    return secret_for_header(variable, environment.get(variable, ""))


def _vendor(model: ModelSettings) -> Vendor:
    return dialect(model.api).vendor


def _home(vendor: Vendor, models: Sequence[ModelSettings], environment: Mapping[str, str]) -> str:
    """The only origin that gets the vendor's own key variable."""
    if base_url := environment.get(vendor.base_url_variable, "").strip():
        return origin(base_url)
    origins = [origin(url) for model in models if _vendor(model) is vendor for url in base_urls(model, environment)]
    vendor_origin = origin(vendor.base_url)
    return vendor_origin if vendor_origin in origins else origins[0]


def _assigned(model: ModelSettings, home: str, environment: Mapping[str, str]) -> ModelSettings:
    named, places = model.api_key_env, [origin(url) for url in base_urls(model, environment)]
    table: dict[str, str] = {}
    for place in places:
        host_and_port = place.partition("://")[2]
        host = urlsplit(place).hostname or ""
        names = [place, host_and_port, host, *([FIRST] if place == places[0] else [])]
        variable = next((named[name] for name in names if name in named), None)
        if variable is not None:
            if variable and not environment.get(variable, "").strip():
                raise UserError(f"{variable} is named as the key of {place}, but is not set in the environment")
            table[place] = variable
        else:
            key_variable = _vendor(model).key_variable
            table[place] = key_variable if place == home and environment.get(key_variable, "").strip() else ""
    if unused := [name for name in named if name != FIRST and not any(_is_at(name, place) for place in places)]:
        raise UserError(f"--api-key-env {unused[0]}=…: none of the base URLs is on this host")
    return model.model_copy(update={"api_key_env": table})


def _is_at(name: str, place: str) -> bool:
    return name in (place, place.partition("://")[2], urlsplit(place).hostname)


def _masked(key: str) -> str:
    if len(key) >= 20:
        return f"{key[:3]}…{key[-4:]}"
    return "…" if key else ""
