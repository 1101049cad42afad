"""Patient data stays: where a run over a hospital's own data may send them, and what leaves its folder.

This holds for runs with `--writes private`. Published data over `--fhir` are not a hospital's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from medagent.core.errors import UserError
from medagent.core.wire import without_password
from medagent.engine.folder import read_run
from medagent.engine.report import ItemOutcome, Report

OPTION = "--send-patient-data"


def has_patient_data(run: Path) -> bool:
    """Whether a run's folder has a hospital's data. Raises UserError if its `run.json` cannot be read."""
    return (run / "run.json").is_file() and read_run(run)["settings"].get("writes") == "private"


def check_exported(run: Path, *, with_patient_data: bool, address: str = "", allowed: Sequence[str] = ()) -> None:
    """Raises UserError for a run with a hospital's data, unless the user wants them exported. If they go to an
    `address` instead of a file, it must be allowed.
    """
    if not has_patient_data(run):
        return
    if address.startswith(("http://", "https://")) or address == "databricks":
        check_destinations([("the tool", address)], allowed)
    if not with_patient_data:
        raise UserError(
            f"{run}: has a hospital's data (--writes private); pass --with-patient-data to let them into this form, or "
            "use `export jsonl`, `export csv` or `report`, which have scores, kinds and counts only"
        )


def shown_elsewhere(report: Report, run: Path) -> Report:
    """A run's report as it may leave the run's folder: without texts that may quote a hospital's charts."""
    if not has_patient_data(run):
        return report
    items = tuple(outcome_only(one) for one in report.items)
    return report.model_copy(update={"items": items, "notes": (), "stopped": None, "details": {}})


def outcome_only(one: ItemOutcome) -> ItemOutcome:
    """An outcome without the texts that may quote a chart."""
    return replace(one, reason="", because="", reading="")


def check_destinations(addresses: Iterable[tuple[str, str]], allowed: Sequence[str]) -> None:
    """Raises UserError for the first address beyond this machine whose host is not allowed. Each address has a name,
    such as `the model`.
    """
    for name, address in addresses:
        host = (urlsplit(address if "://" in address else f"//{address}").hostname or "").lower()
        if not _is_loopback(host) and host not in {one.lower() for one in allowed}:
            shown = without_password(address)
            raise UserError(
                f"{name} is at {shown}, and patient data would be sent there; if they may be: {OPTION} {host}"
            )


def check_own_code(name: str, allowed: Sequence[str]) -> None:
    """Raises UserError for code of the user, or for a client that calls tools, which may send data anywhere."""
    if not allowed:
        raise UserError(f"{name} may send patient data anywhere; name the host that may get them: {OPTION} HOST")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def owner_only(apply: bool) -> Iterator[None]:
    """New files and folders of this process can be read by their owner only (0600, 0700), while the block runs."""
    before = os.umask(0o077) if apply else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)
