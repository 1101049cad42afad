"""The items of a run and their order, which mixes the types, so that a part of a run is representative.

The order is the same on every machine, and independent of the settings: a larger selection extends a smaller one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from medagent.core.errors import UserError
from medagent.engine.settings import RunSettings


def mixed(
    keys: Sequence[str], group: Callable[[str], str] = lambda _: "", *, per_group: int | None = None
) -> list[str]:
    """The keys, taken from the groups in turn. Within a group, the order is pseudo-random; at most `per_group` each."""
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(group(key), []).append(key)
    places = [
        (round_, number, key)
        for number, members in enumerate(groups.values())
        for round_, key in enumerate(sorted(members, key=_lot)[:per_group])
    ]
    return [key for _, _, key in sorted(places)]


def _lot(key: str) -> bytes:
    return hashlib.sha256(f"medagent/{key}".encode()).digest()


def selected(ids: Sequence[str], settings: RunSettings, group: Callable[[str], str] = lambda _: "") -> list[str]:
    """The ids that `--ids`, `--per-type` and `--limit` select, in an order that mixes the groups (types).

    Raises UserError for an unknown id.
    """
    known = set(ids)
    if unknown := [one for one in settings.ids if one not in known]:
        some = ", ".join([*ids[:3], "…"] if len(ids) > 4 else ids)
        raise UserError(f"--ids {unknown[0]}: no such item; the {len(ids)} items are {some}")
    named = set(settings.ids)
    chosen = [one for one in ids if not named or one in named]
    return mixed(chosen, group, per_group=settings.per_type)[: settings.limit]
