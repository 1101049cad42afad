"""The pictures of the documentation: each is drawn by `make images`, and shows what the commands print now."""

from __future__ import annotations

from pathlib import Path

import pytest

import medagent
from tests.command import medagent as command
from tools import pictures

DRAWN = [[pictures.PICTURE.name], *([shot.name for shot in scene.shots] for scene in pictures.SCENES)]
QUICK = "report-run.png"
"""A picture whose commands end within seconds."""


def test_every_picture_has_its_commands() -> None:
    names = [*pictures.INSPECT, *(name for names in DRAWN for name in names)]
    assert sorted(names) == sorted(path.name for path in pictures.IMAGES.iterdir())


@pytest.mark.parametrize(
    "names",
    [pytest.param(names, marks=() if QUICK in names else pytest.mark.long, id=names[0]) for names in DRAWN],
)
def test_pictures_show_what_their_commands_print(names: list[str]) -> None:
    images = list(pictures.drawn(names))
    if not images:
        pytest.skip("needs ../shared/medagentbench")
    for path, image in images:
        assert pictures.lines(path.read_bytes()) == pictures.lines(image), "run: make images"


def test_inspects_viewer_shows_the_reason_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("run", "--agent", f"{pictures.ERRING}:ErringAgent", "--ids", "task5_2", "--quiet").code == 0
    (item,) = medagent.load_run("results/v2_r1_ErringAgent").report.items
    for name in pictures.INSPECT:
        text = "\n".join(pictures.lines((pictures.IMAGES / name).read_bytes()))
        assert item.because in text
        assert name != "inspect-view.png" or item.reason in text
