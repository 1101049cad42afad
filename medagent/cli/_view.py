"""`medagent view`: a page on this machine that lists the runs of a folder.

It reads folders only. The address is one of this machine, and a request for another host's name is refused, so that no
web page can read the runs through a name that leads here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, unquote, urlsplit

import typer

from medagent.terminal import options

HOST = "127.0.0.1"
Codes = Annotated[
    list[str] | None,
    typer.Option(
        "--benchmark",
        metavar="FILE.py:Name",
        help="The code of your own benchmark, for its runs; repeatable. A run's own files never decide which code is "
        "run.",
    ),
]


def command(
    results: Annotated[Path, typer.Argument(help="The folder of runs.")] = Path("results"),
    port: options.Port = 0,
    benchmark: Codes = None,
    opened: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Show the runs of a folder on a local page: score, cost and progress, with a report of each.

    The page changes while runs are going. Tick two runs to compare them. It can be reached from this machine only, and
    changes no file. End it with Ctrl-C.

    Example: medagent view results --open
    """
    import webbrowser

    from medagent.benchmarks.base import find
    from medagent.core.errors import UserError
    from medagent.reports.tables import put

    if not results.is_dir():
        raise UserError(f"{results}: no such folder; pass the folder of your runs: medagent view RESULTS")
    for code in benchmark or ():
        find(code)  # refused now, not in each row of the page
    with view_server(results, port, benchmark or ()) as server:
        address = f"http://{HOST}:{server.server_port}/"
        put(f"{address} shows the runs in {results}. End it with Ctrl-C.")
        if opened:
            webbrowser.open(address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


@contextmanager
def view_server(results: Path, port: int = 0, benchmarks: Sequence[str] = ()) -> Iterator[ThreadingHTTPServer]:
    """The server of the page; `serve_forever` runs it. `benchmarks` are the code of those that are not installed.
    Raises UserError if the port is taken.
    """
    from medagent.core.errors import UserError

    class Handler(_Handler):
        folder = results
        codes = benchmarks

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise UserError(f"cannot listen on port {port}: {error.strerror}; choose another --port") from None
    server.daemon_threads = True
    with server:
        yield server


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of the page."""

    folder: Path
    codes: Sequence[str]

    def do_GET(self) -> None:
        """The page, the list of runs, a run's report, a comparison."""
        from medagent.core.errors import MedagentError
        from refsol.errors import RefsolError

        parts = urlsplit(self.path)
        if self.headers.get("Host", "").partition(":")[0] not in (HOST, "localhost"):
            self._send(403, "text/plain", b"open the address that medagent view printed")
            return
        try:
            if parts.path == "/":
                self._send(200, "text/html", _page())
            elif parts.path == "/runs":
                listed = {"folder": str(self.folder.resolve()), "runs": list(runs(self.folder, self.codes))}
                self._send(200, "application/json", json.dumps(listed).encode())
            else:
                self._send(200, "text/html", self._report(parts.path, parse_qs(parts.query).get("run", [])))
        except KeyError:
            self._send(404, "text/plain", b"no such run or page")
        except (MedagentError, RefsolError) as error:
            self._send(400, "text/plain", str(error).encode())

    def _report(self, path: str, named: Sequence[str]) -> bytes:
        """The report of one run, or of two side by side. Raises KeyError if the page does not exist."""
        import tempfile

        from medagent._finished import write_page
        from medagent.core.errors import UserError
        from medagent.engine.folder import read_run

        folders = {folder.name: folder for folder in _folders(self.folder)}
        _, page, *names = map(unquote, path.split("/"))
        if page == "compare" and len(named) == 2:
            names = list(named)
        elif page != "run" or len(names) != 1:
            raise KeyError(path)
        shown = [folders[name] for name in names]
        benchmarks = {str(read_run(folder)["benchmark"]) for folder in shown}
        if len(benchmarks) > 1:
            raise UserError(f"{' and '.join(names)}: runs of two benchmarks; tick two runs of one")
        with tempfile.TemporaryDirectory() as aside:
            file = Path(aside, "report.html")
            write_page(shown, file, _code(benchmarks.pop(), self.codes), None, {})
            return file.read_bytes()

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        with suppress(ConnectionError):  # the reader closed the page
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: a request every two seconds is not news."""


def _page() -> bytes:
    from medagent.reports import page

    return Path(page.__file__).with_name("view.html").read_bytes()


def _code(benchmark: str, codes: Sequence[str]) -> str | None:
    """The code for the runs of a benchmark, wherever its file is now; None if there is none."""
    return next((code for code in codes if Path(code).name == Path(benchmark).name), None)


def _folders(results: Path) -> list[Path]:
    """The folders of runs, the last changed first."""
    folders = [path.parent for path in results.glob("*/run.json")]
    return sorted(folders, key=lambda folder: _changed(folder), reverse=True)


def _changed(folder: Path) -> float:
    """When a journal of a run was changed last, in seconds since 1970."""
    return max(path.stat().st_mtime for path in (folder / "run.json", *folder.glob("*.jsonl")))


def runs(results: Path, codes: Sequence[str] = ()) -> Iterator[dict[str, str]]:
    """What the page shows of each run."""
    import time

    from medagent.benchmarks.base import of_folder
    from medagent.core.errors import MedagentError
    from medagent.core.number_formats import dollars, duration, figure, harm_words
    from medagent.engine.folder import read_run
    from medagent.engine.report import read_report
    from medagent.engine.results import report_of
    from medagent.reports.tables import bounds
    from refsol.errors import RefsolError
    from refsol.failures import kind_name
    from refsol.stats import Interval

    for folder in _folders(results):
        shown = {"name": folder.name, "benchmark": ""}
        try:
            name = shown["benchmark"] = read_run(folder)["benchmark"]
            report, last = report_of(of_folder(folder, _code(name, codes)), folder), read_report(folder)
        except (MedagentError, RefsolError) as error:
            yield shown | {"problem": str(error)}
            continue
        overall, faults = report.overall, report.failure_groups
        grounded = overall.grounded if overall else None
        done = sum(item.value is not None for item in report.items)
        ended = last is not None and last.journals == report.journals
        yield shown | {
            "score": figure(overall.value, report.measure) if overall else "–",
            "interval": bounds(Interval(*overall.interval), report.measure) if overall and overall.interval else "–",
            "finished": f"{done:,} of {done + len(report.owed):,}" if ended else f"{done:,} so far",
            "read": f"{grounded.right:,} of {grounded.n:,}" if grounded and grounded.n else "–",
            "harm": harm_words(report.details.get("harm")) or "–",
            "fault": f"{kind_name(faults[0].kind)} ({len(faults[0].items):,})" if faults else "–",
            "cost": dollars(report.spent.cost) if report.spent.calls else "–",
            "changed": f"{duration(time.time() - _changed(folder))} ago",
        }
