"""A wheel of this installation, made from its files, without the bundled tasks and their answer keys.

So a task's image runs the same code that wrote the task, even if that version is on no package index, and needs no
build backend. A container needs only its own task, so the bundled ones are left out.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib import import_module, metadata
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from medagent.core.errors import UserError

PACKAGES = ("medagent", "refsol", "fhir_server")
_WHEEL = "Wheel-Version: 1.0\nGenerator: medagent\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder: Path, left_out: Sequence[str]) -> Path:
    """Write the wheel into a folder, without the files below `left_out`, and return its path.

    The same files give the same bytes. Raises UserError.
    """
    version, about = _installed()
    name = f"medagent-{version}"
    path = folder / f"{name}-py3-none-any.whl"
    info = {f"{name}.dist-info/{part}": text.encode() for part, text in about.items()}
    record = []
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for place, content in [*_files(left_out), *info.items()]:
            _add(archive, place, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{place},sha256={digest},{len(content)}")
        own = f"{name}.dist-info/RECORD"
        _add(archive, own, "\n".join([*record, f"{own},,", ""]).encode())
    return path


def _installed() -> tuple[str, dict[str, str]]:
    """The version, and the texts of the wheel's metadata files by name."""
    try:
        distribution = metadata.distribution("medagent")
    except metadata.PackageNotFoundError:
        raise UserError("medagent is not installed here, so no wheel can be made; install it with pip") from None
    about = {name: distribution.read_text(name) for name in ("METADATA", "entry_points.txt")}
    missing = [name for name, text in about.items() if text is None]
    if missing:
        raise UserError(f"this installation of medagent has no {missing[0]}; reinstall it with pip")
    return distribution.version, {**{name: text or "" for name, text in about.items()}, "WHEEL": _WHEEL}


def _files(left_out: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        root = Path(str(import_module(package).__file__)).parent
        for path in sorted(root.rglob("*")):
            place = path.relative_to(root.parent).as_posix()
            if path.is_file() and "__pycache__" not in path.parts and not place.startswith(tuple(left_out)):
                yield place, path.read_bytes()


def _add(archive: ZipFile, place: str, content: bytes) -> None:
    entry = ZipInfo(place)  # dated 1980, so that the same files give the same bytes
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)
