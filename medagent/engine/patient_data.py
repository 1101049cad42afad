"""Patient data stays: where a run over a hospital's own data may send them, and what leaves its folder.

This holds for runs with `--writes private`. Published data over `--fhir` are not a hospital's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from medagent.core.errors import NOT_SHOWN, UserError
from medagent.core.wire import is_loopback, proxy_of, without_password
from medagent.engine.folder import read_run
from medagent.engine.report import ItemOutcome, Report

OPTION = "--send-patient-data"


def has_patient_data(run: Path) -> bool:
    """Whether a run's folder, or a file in it, contains a hospital's data. Raises UserError if its `run.json` cannot be
    read.
    """
    folder = run.parent if run.is_file() else run
    return (folder / "run.json").is_file() and read_run(folder)["settings"].get("writes") == "private"


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
            f"{run}: contains a hospital's data (--writes private); pass --with-patient-data to let them into this "
            "format, or use `export jsonl`, `export csv` or `report`, which contain scores, kinds and counts only"
        )


def shown_elsewhere(report: Report, run: Path) -> Report:
    """A run's report as it may leave the run's folder: without texts that may quote a hospital's charts."""
    if not has_patient_data(run):
        return report
    items = tuple(outcome_only(item) for item in report.items)
    fields = {name: getattr(without_errors(report), name) for name in Report.model_fields}
    return Report.model_construct(**{**fields, "items": items, "notes": (), "stopped": None})


def without_errors(report: Report) -> Report:
    """A report in which a failed unit shows its status only, if it is over a hospital's own data."""
    if not has_patient_data(Path(report.folder)):
        return report
    failed = tuple(failure.model_copy(update={"error": NOT_SHOWN}) for failure in report.failed)
    return report.model_copy(update={"failed": failed})


def outcome_only(outcome: ItemOutcome) -> ItemOutcome:
    """An outcome without the texts that may quote a chart."""
    return replace(outcome, reason="", because="", reading="")


def check_destinations(addresses: Iterable[tuple[str, str]], allowed: Sequence[str]) -> None:
    """Raises UserError for the first address beyond this machine whose host is not allowed. Each address comes with a
    name, such as `the model`. A proxy reads what is sent by plain HTTP, so it must be allowed too.
    """
    for name, address in addresses:
        proxy = proxy_of(address) if address.startswith("http://") else ""
        for who, place in ((name, address), (f"the environment's proxy for {name}", proxy)):
            host = (urlsplit(place if "://" in place else f"//{place}").hostname or "").lower()
            if place and not is_loopback(host) and host not in {name.lower() for name in allowed}:
                shown = without_password(place)
                raise UserError(
                    f"{who} is at {shown}, and patient data would be sent there; if they may be: {OPTION} {host}"
                )


def check_own_code(name: str, allowed: Sequence[str]) -> None:
    """Raises UserError for code of the user, or for a client that calls tools, which may send data anywhere."""
    if not allowed:
        raise UserError(f"{name} may send patient data anywhere; name the host that may get them: {OPTION} HOST")


@contextmanager
def owner_only(apply: bool) -> Iterator[None]:
    """New files and folders of this process can be read by their owner only (0600, 0700), while the block runs."""
    before = os.umask(0o077) if apply else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)
