"""`medagent view`: what the page shows of a folder of runs, while one is added, and who may read it."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from medagent.cli._view import view_server
from tests.command import medagent
from tests.medagent.benchmarks.custom.ward3 import write
from tests.medagent.reports.browser import opened, serious

SHOWN = """(row) => [...row.cells].map(
  (cell) => getComputedStyle(cell, "::before").content.replaceAll('"', "") + cell.innerText).join("\\n")"""
"""The texts of a row on a narrow page, with the name that stands before each."""
RUN = ("run", "--limit", 4, "--quiet", "--results-dir")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs."""
    folder = tmp_path_factory.mktemp("view") / "results"
    for agent in ("nop", "reference"):
        assert medagent(*RUN, folder, "--agent", agent).code == 0
    return folder


@contextmanager
def viewing(results: Path, *codes: str) -> Iterator[int]:
    """The page's port, while its server runs."""
    with view_server(results, benchmarks=codes) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def get(port: int, target: str, host: str = "127.0.0.1") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", target, headers={"Host": f"{host}:{port}"})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    finally:
        connection.close()


def test_the_runs_of_a_folder_with_score_cost_and_progress(results: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in results.rglob("*"))
    with viewing(results) as port:
        status, text = get(port, "/runs")
        shown = {run["name"]: run for run in json.loads(text)["runs"]}
        report = get(port, "/run/v2_r1_nop")
        both = get(port, "/compare?run=v2_r1_nop&run=v2_r1_reference")
    assert status == 200
    assert {name: (run["score"], run["finished"], run["cost"]) for name, run in shown.items()} == {
        "v2_r1_nop": ("0.0%", "4 of 4", "–"),
        "v2_r1_reference": ("100.0%", "4 of 4", "–"),
    }
    assert shown["v2_r1_reference"]["harm"] == "0 orders"
    assert (report[0], "v2_r1_nop" in report[1], "v2_r1_reference" in report[1]) == (200, True, False)
    assert (both[0], "v2_r1_nop" in both[1], "v2_r1_reference" in both[1]) == (200, True, True)
    assert sorted((path, path.stat().st_mtime_ns) for path in results.rglob("*")) == before


def test_a_run_that_is_going_shows_what_is_finished(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(results / "v2_r1_reference", folder / "going")
    journal = folder / "going" / "episodes.jsonl"
    for name in ("report.json", "items.jsonl", "results.json", "grade.json"):  # a run writes them at its end
        (folder / "going" / name).unlink()
    with viewing(folder) as port:
        (run,) = json.loads(get(port, "/runs")[1])["runs"]
        assert (run["score"], run["finished"]) == ("100.0%", "4 so far")
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
        (run,) = json.loads(get(port, "/runs")[1])["runs"]
        assert run["finished"] == "3 so far"


@pytest.mark.parametrize(
    "target",
    [
        "/run/..",
        "/run/%2e%2e%2fresults",
        "/run/v2_r1_nop%2f..%2fv2_r1_nop",
        "/run",
        "/etc/passwd",
        "/compare?run=v2_r1_nop",
    ],
)
def test_only_runs_of_the_folder_can_be_read(results: Path, target: str) -> None:
    with viewing(results) as port:
        assert get(port, target) == (404, "no such run or page")


def test_a_name_of_another_host_that_leads_here_is_refused(results: Path) -> None:
    with viewing(results) as port:
        assert get(port, "/runs", host="rebound.example")[0] == 403
        assert get(port, "/runs", host="localhost")[0] == 200


def test_a_reader_that_closes_the_page_is_no_error(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with viewing(results) as port:
        with socket.create_connection(("127.0.0.1", port)) as left:
            left.sendall(f"GET /run/v2_r1_nop HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            left.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes at once
        assert get(port, "/run/v2_r1_nop")[0] == 200
    assert capsys.readouterr().err == ""


def test_a_run_that_cannot_be_read_is_named(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(results / "v2_r1_nop", folder / "damaged")
    (folder / "damaged" / "run.json").write_text("{")
    with viewing(folder) as port:
        (run,) = json.loads(get(port, "/runs")[1])["runs"]
    assert "run.json: is damaged" in run["problem"]


def test_runs_of_ones_own_benchmarks_are_read_with_the_code_that_the_user_names(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(results / "v2_r1_nop", "results/v2_r1_nop")
    code, patients = write(tmp_path)
    for agent in ("nop", "constant"):
        assert medagent("run", code, "--ehr", patients, "--agent", agent, "--limit", 3, "--quiet").code == 0
    first, second = sorted(path.name for path in Path("results").glob("*ward*"))
    with viewing(Path("results"), "unknown.py:Other", code.name) as port:
        listed = json.loads(get(port, "/runs")[1])["runs"]
        assert [run["name"] for run in listed if "problem" in run] == []
        assert get(port, f"/run/{first}")[0] == get(port, f"/compare?run={first}&run={second}")[0] == 200
        mixed = f"{first} and v2_r1_nop: runs of two benchmarks; tick two runs of one"
        assert get(port, f"/compare?run={first}&run=v2_r1_nop") == (400, mixed)
    with viewing(Path("results")) as port:
        status, text = get(port, f"/run/{first}")
        assert (status, "to read it with that code: --benchmark" in text) == (400, True)
    assert "missing.py:Mine: no such file" in medagent("view", "results", "--benchmark", "missing.py:Mine").err


def test_the_command_says_its_address_and_what_is_missing(results: Path, tmp_path: Path) -> None:
    ran = medagent("view", tmp_path / "none")
    assert (ran.code, ran.err) == (
        1, f"medagent: {tmp_path / 'none'}: no such folder; pass the folder of your runs: medagent view RESULTS\n",
    )  # fmt: skip
    with viewing(results) as port:
        taken = medagent("view", results, "--port", port)
    assert f"cannot listen on port {port}: " in taken.err


def test_the_page_in_a_browser_lists_opens_and_compares(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(results / "v2_r1_nop", folder / "v2_r1_nop")
    ran = medagent("run", "promptcblue", "--agent", "majority", "--limit", 4, "--quiet", "--results-dir", folder)
    assert ran.code == 0, ran.err
    with viewing(folder) as port, opened(viewport={"width": 390, "height": 800}) as found:
        found.page.goto(f"http://127.0.0.1:{port}/")
        found.until("#runs tr", "0.0%")
        for name in ("95% interval: 0.0", "Data read: 0 of ", "Harm: 0 orders", "Commonest fault: "):
            assert name in found.page.locator("#runs tr", has_text="v2_r1_nop").evaluate(SHOWN)
        assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        found.page.check("input[value=v2_r1_nop]")
        assert found.page.locator("#compare").is_disabled()
        shutil.copytree(results / "v2_r1_reference", folder / "v2_r1_reference")  # the page changes by itself
        found.until("#runs tr", "100.0%")
        assert found.page.is_checked("input[value=v2_r1_nop]")
        found.page.check("input[value=promptcblue_r1_majority]")
        assert found.page.locator("#compare").is_disabled()
        assert found.text("#hint") == "Only runs of one benchmark can be compared."
        found.page.uncheck("input[value=promptcblue_r1_majority]")
        found.page.check("input[value=v2_r1_reference]")
        assert found.text("#hint") == ""
        with found.page.expect_popup() as popup:
            found.page.click("#compare")
        popup.value.wait_for_selector("html[data-ready]")
        assert popup.value.locator("h1").count() >= 2
        with found.page.expect_popup() as popup:
            found.page.click("text=v2_r1_nop")
        popup.value.wait_for_selector("html[data-ready]")
        assert popup.value.locator("#items .row").count() > 0
        assert found.said == []
        assert all(url.startswith(f"http://127.0.0.1:{port}/") or url.startswith("data:") for url in found.asked)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_page(results: Path, scheme: str) -> None:
    with viewing(results) as port, opened(color_scheme=scheme) as found:
        found.page.goto(f"http://127.0.0.1:{port}/")
        found.until("#runs tr", "100.0%")
        assert serious(found) == []
        found.page.set_viewport_size({"width": 390, "height": 800})
        within = "(one) => one.getBoundingClientRect().right <= innerWidth"
        assert all(found.page.locator("#runs td:visible").evaluate_all(f"(all) => all.map({within})"))
