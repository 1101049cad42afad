"""Draws docs/images from what commands print now.

    python -m tools.pictures                     # all pictures, as `make images`
    python -m tools.pictures report-run.png      # only these

The commands of a picture run in an empty folder. `terminal.svg` shows their output (`tools/recording.py`), the other
pictures show a page in Chromium. Each contains the text of what it shows, an SVG as text and a PNG in a chunk of its
own, and `tests/test_pictures.py` compares this text with what the picture shows now.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import tomllib
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.integrations.__main__ import HERE, Peer, environment
from tests.medagent.reports.browser import opened
from tools.doc_pages import ran
from tools.recording import PICTURE, picture

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SHARED = ROOT.parent / "shared" / "medagentbench"
ERRING = ROOT / "tests" / "medagent" / "reports" / "erring.py"
SIZE = {"width": 1280, "height": 760}
SHOWN = """["summary", "item"].map((id) => document.getElementById(id)).filter((one) => one.checkVisibility())
  .map((one) => one.innerText).join("\\n")"""
"""The visible text of a report, without its list of items, which depends on how far it is scrolled."""
CHUNK = b"iTXtDescription\0\1\0\0\0"
TIMES = re.compile(r"\b\d[\d.]* (s|min)\b")


@dataclass(frozen=True)
class Shot:
    """A picture of a report, or of one of its items."""

    name: str
    height: int
    item: str = ""
    page: str = "report.html"


@dataclass(frozen=True)
class Scene:
    """Commands that make pages, the files that they read, and the pictures of the pages."""

    commands: tuple[str, ...]
    shots: tuple[Shot, ...]
    files: dict[str, Path] = field(default_factory=dict)


SCENES = (
    Scene(
        ("medagent report results.json --tasks test_data_v2.json --ehr patients.ndjson -o report.html",),
        (
            Shot("report-run.png", 900),
            Shot("report-wrong-form.png", 860, "task7_10"),
            Shot("report-reading-missed.png", 960, "task10_13"),
            Shot("report-wrong-value.png", 860, "task7_24"),
        ),
        {
            "results.json": SHARED / "results_v2_r2_20251127_000553.json",
            "test_data_v2.json": SHARED / "official" / "test_data_v2.json",
            "patients.ndjson": SHARED / "rebuilt_ehr.ndjson",
        },
    ),
    Scene(
        (
            "medagent run --agent my_agent.py:ErringAgent --quiet || test $? -eq 2",
            "medagent run --agent reference --quiet",
            "medagent run --agent nop --quiet",
            "medagent report results/v2_r1_ErringAgent -o report.html",
            "medagent report results/v2_r1_reference results/v2_r1_ErringAgent results/v2_r1_nop -o compared.html",
        ),
        (Shot("report-order-wrong.png", 1120, "task5_2"), Shot("report-compared.png", 1280, page="compared.html")),
        {"my_agent.py": ERRING},
    ),
)
INSPECT = {
    "inspect-view.png": ("scoring", "EXPLANATION"),
    "inspect-view-transcript.png": ("transcript", "get_observation"),
}
"""Pictures of Inspect's viewer: the tab, and a text that it shows when it is ready."""


def drawn(names: Collection[str] = ()) -> Iterator[tuple[Path, bytes]]:
    """The pictures with these names, or all that this machine can draw: their files and what they contain now.

    Raises CalledProcessError if a command fails.
    """
    if not names or PICTURE.name in names:
        yield PICTURE, picture().encode()
    for scene in SCENES:
        shots = [shot for shot in scene.shots if not names or shot.name in names]
        missing = [str(file) for file in scene.files.values() if not file.exists()]
        if shots and missing:
            print(f"not made, because {missing[0]} is missing: {', '.join(shot.name for shot in shots)}")
        elif shots:
            yield from _shot(scene, shots)
    if tabs := [name for name in INSPECT if not names or name in names]:
        yield from _inspect(tabs)


def _shot(scene: Scene, shots: list[Shot]) -> Iterator[tuple[Path, bytes]]:
    with tempfile.TemporaryDirectory(prefix="medagent-picture-") as name, opened(viewport=SIZE) as browser:
        folder = Path(name)
        for file, path in scene.files.items():
            shutil.copy(path, folder / file)
        for command in scene.commands:
            ran(command, folder)
        for shot in shots:
            browser.page.set_viewport_size(SIZE | {"height": shot.height})
            browser.go(folder / shot.page, shot.item)
            yield IMAGES / shot.name, with_text(browser.page.screenshot(), browser.page.evaluate(SHOWN))


def _inspect(names: list[str]) -> Iterator[tuple[Path, bytes]]:
    """An exported item in Inspect's viewer, from the environment of `make integrations ONLY=inspect`."""
    peer = Peer.model_validate(tomllib.loads((HERE / "inspect" / "peer.toml").read_text(encoding="utf-8")))
    programs = environment("inspect", peer, Path(sys.executable)).parent
    with tempfile.TemporaryDirectory(prefix="medagent-picture-") as folder, opened(viewport=SIZE) as browser:
        shutil.copy(ERRING, Path(folder) / "my_agent.py")
        ran("medagent run --agent my_agent.py:ErringAgent --ids task5_2 --quiet", Path(folder))
        ran(f"{programs}/medagent export inspect results/v2_r1_ErringAgent logs/run.eval", Path(folder))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        view = [programs / "inspect", "view", "--log-dir", "logs", "--port", port]
        server = subprocess.Popen(
            view, cwd=folder, env={**os.environ, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True
        )
        try:
            next(line for line in server.stdout or () if "Running on" in line)
            for name in names:
                tab, ready = INSPECT[name]
                browser.page.goto(f"http://127.0.0.1:{port}/#/logs/run.eval/samples/sample/task5_2/1/{tab}")
                browser.page.get_by_text(ready).first.wait_for()
                text = browser.page.evaluate("document.body.innerText")
                yield IMAGES / name, with_text(browser.page.screenshot(), text)
        finally:
            server.terminate()
            server.wait()


def with_text(png: bytes, text: str) -> bytes:
    """A PNG that contains a text."""
    chunk = CHUNK + zlib.compress(text.encode())
    place = png.index(b"IDAT") - 4
    return png[:place] + struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[place:]


def lines(image: bytes) -> list[str]:
    """The lines of text of a picture, without times; none if it does not contain its text."""
    if image.startswith(b"<svg"):
        shown = [html.unescape(text).replace("\xa0", " ") for text in re.findall(r">([^<>]+)</text>", image.decode())]
    else:
        packed = image.partition(CHUNK)[2]
        shown = zlib.decompressobj().decompress(packed).decode().splitlines() if packed else []
    return [line for line in (TIMES.sub("", text).strip() for text in shown) if line]


def main() -> None:
    """Draw the pictures that the command line lists, or all."""
    for path, image in drawn(sys.argv[1:]):
        path.write_bytes(image)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
