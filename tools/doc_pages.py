"""Runs the commands of the documentation, and compares what they print with what the pages show.

    python -m tools.doc_pages                  # every page; writes outputs that changed into the pages
    python -m tools.doc_pages docs/data.md     # these pages only

A page is played from top to bottom in an empty folder. A fence after "`name.py`:" is saved as that file. In a `console`
block the lines between two commands are compared with the output, apart from times, sizes and ids; a line `…` matches
any lines. A command without output on the page only has to succeed. Addresses on localhost lead to stand-ins: a model
that always answers the same, a FHIR server with the bundled hospital, or the server that the page itself starts.
`OUTSIDE` lists what cannot run in a test, with the reason; a page cannot add to it. `tests/test_doc_commands.py` plays
every page.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "medagentbench"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"`([\w./-]+\.\w+)`[^`\n]*:\s*\Z")
OUTSIDE: tuple[tuple[str, str], ...] = (
    (r"^docker |\bdocker compose\b", "needs Docker"),
    (r"^(pip|pipx|uvx|uv|npm|npx) |-m pip\b|^python3? -m venv|^source ", "installs something"),
    (r"^git |^cd ", "is about a checkout"),
    (
        r"^make |^python -m (tools|tests|benchmarks)\b|^python tools/|hapi\.sh|/peers/",
        "is for contributors; it takes minutes",
    ),
    (r"^(vllm|ollama|sbatch|srun|ssh|kubectl|dask) |--cluster tcp:", "needs another program or machine"),
    (r"^(harbor|prime|vf-\w+|openenv|medagent-openenv|mlflow|lm_eval|swe) ", "needs another program"),
    (r"localhost:8080/finish", "needs the container of a task"),
    (r"data import |--dataset official|--official |--recipe ", "needs a checkout of the published code or data"),
    (r"\b(FILE|FOLDER|CHECKOUT|DIR|OPENCOMPASS_FOLDER|labels\.jsonl)\b", "is about a file of the reader"),
    (r"\b(test|gold_structured|answers|test_predictions|items|questions)\.jsonl?\b", "is about a file of the reader"),
    (r"mimic|GRASP|--dataset published|judge check fhir-agentbench|ehr copy --from .*\.ndjson", "needs published data"),
    (r"run imapscore|judge check ", "needs a model that can do it"),
    (
        r"^inspect |medagent (mcp|a2a)\b|export inspect|claude mcp|integrations\.a2a|_mcp\b|fhir-mcp-server",
        "needs an extra; `make integrations` runs it",
    ),
)
"""Patterns of commands that a test cannot run, each with the reason."""
SERVER = re.compile(r"^(medagent (serve|view)|python -m fhir_server)\b")
PORT = re.compile(r"(localhost|127\.0\.0\.1):(\d{4,5})(/fhir|/v1)?")
RUN = re.compile(r"results/v2_(r\d+)_([\w.-]+)")
PUBLISHED = {
    "results.json": SHARED / "results_v2_r2_20251127_000553.json",
    "test_data_v2.json": SHARED / "official" / "test_data_v2.json",
    "patients.ndjson": SHARED / "rebuilt_ehr.ndjson",
}
"""Files that a reader brings, and what stands in for them."""
LOGS = {"logs/baseline.eval": "inspect/a.eval", "logs/candidate.eval": "inspect/b.eval"} | {
    f"lm-eval/model-{letter}": f"lm-eval/{letter}" for letter in "ab"
}
"""Other tools' logs on the pages, and the recorded ones that stand in for them."""
VARYING = (
    (re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}[\d:.+Z-]*"), "TIME"),
    (re.compile(r"\b\d[\d.,]*/(s|min)\b"), "RATE"),
    (re.compile(r"\b\d[\d.]* ?(ms|s|min|h)\b"), "DURATION"),
    (re.compile(r"\b\d[\d.,]* ?(bytes|kB|MB|GB)\b"), "SIZE"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,64}\b"), "ID"),
    (re.compile(r"/tmp/\S+"), "PATH"),
    (re.compile(r"(?<=\bbubblewrap )\d[\d.]*\d|(?<=\bPython )3\.\d+\.\d+|(?<=\bPython: )3\.\d+\.\d+"), "VERSION"),
    (re.compile(r"\s+"), " "),
)
ELLIPSIS = "…"
NOWHERE = "http://127.0.0.1:9/v1"
"""The address of a model where nothing listens."""


@dataclass(frozen=True)
class Step:
    """A command of a page, and the lines that the page shows as its output."""

    command: str
    shown: list[str]


@dataclass
class Outcome:
    """The page with the outputs of its commands, and where they differ from what it showed."""

    text: str = ""
    problems: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


class Missing(Exception):
    """A file of ../shared that a page needs does not exist."""


def pages() -> list[Path]:
    """All pages of the documentation, and the skill."""
    paths = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "skills").rglob("*.md"))
    return sorted(path for path in paths if path.is_file())


def commands(text: str) -> Iterator[str]:
    """Every command that a page shows."""
    for fence in FENCE.finditer(text):
        yield from (step.command for step in steps(fence[1], fence[2]))


def steps(language: str, body: str) -> Iterator[Step]:
    """The commands of a block."""
    if language not in ("console", "sh"):
        return
    lines = iter(body.splitlines())
    command, output = "", []
    for line in lines:
        text = line
        while text.endswith("\\"):
            text = text[:-1].rstrip() + " " + next(lines).strip()
        if language == "console" and not text.startswith("$ "):
            output.append(text)
            continue
        if command:
            yield Step(command, output)
        command, output = re.sub(r"\s+#\s.*$", "", text.removeprefix("$ ")).strip(), []
        if command.startswith("#"):
            command = ""
    if command:
        yield Step(command, output)


def outside(command: str) -> str:
    """Why a test cannot run this command; empty if it can."""
    plain = command.removeprefix(".venv/bin/")
    return next((reason for pattern, reason in OUTSIDE if re.search(pattern, plain)), "")


def same(shown: list[str], printed: list[str]) -> bool:
    """Whether a page shows what was printed, apart from times, sizes and ids."""
    pattern = "".join(
        r"(?:.*\n)*" if line.strip() == ELLIPSIS else re.escape(steady(line)) + r"\n" for line in shown if line.strip()
    )
    return bool(re.fullmatch(pattern, "".join(f"{steady(line)}\n" for line in printed if line.strip())))


def steady(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, word in VARYING:
        line = pattern.sub(word, line)
    return line.strip()


class Stage:
    """The folder in which a page is played, and the servers that its addresses lead to."""

    def __init__(self, page: str, folder: Path, model_url: str) -> None:
        self.page = page
        self.folder = folder
        self._ports: dict[str, str] = {}
        self._servers: list[subprocess.Popen[bytes]] = []
        self._model_port = model_url.split(":")[2].split("/")[0]
        program = shutil.which("bash") or "bash"
        self._shell = [program, "-o", "pipefail", "-c"]
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "MEDAGENT"))}
        self._environment = variables | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder / ".home"),
            "XDG_DATA_HOME": str(folder / ".home" / "data"),
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "BROWSER": "true",
            "OPENAI_API_KEY": "key",
            "OPENAI_BASE_URL": model_url,
        }

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.terminate()
        for server in self._servers:
            server.wait()

    def run(self, command: str) -> tuple[int, list[str]]:
        """Exit status and output lines of a command; of a failing one also its errors."""
        self._bring_files(command)
        self._bring_logs(command)
        self._bring_runs(command)
        text = PORT.sub(lambda address: f"{address[1]}:{self._port(address)}{address[3] or ''}", command)
        text = re.sub(r"(--port )(\d{4,5})", lambda port: port[1] + self._own_port(port[2]), text)
        text = text.removeprefix(".venv/bin/").replace(" .venv/bin/", " ")
        plain = text.removesuffix("&").strip()
        if variable := re.fullmatch(r"export (\w+)=(\S+|\"\$\(.*\)\")", plain):
            if variable[2] != ELLIPSIS:  # the reader's own value: the stage has one
                value = self._run(f"printf %s {variable[2]}", self.folder).stdout
                self._environment[variable[1]] = value.decode()
            return 0, []
        if text.endswith("&") or SERVER.match(text):
            return self._start(plain, command)
        folder = ROOT if " tests/" in plain else self.folder
        done = self._run(plain, folder)
        printed = done.stdout + (done.stderr if done.returncode else b"")
        return done.returncode, [self._public(line) for line in printed.decode().splitlines()]

    def _run(self, command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*self._shell, command], cwd=folder, env=self._environment, capture_output=True)

    def _public(self, line: str) -> str:
        for public, real in self._ports.items():
            line = line.replace(f":{real}", f":{public}")
        return line.replace(str(self.folder) + "/", "").rstrip()

    def _port(self, address: re.Match[str]) -> str:
        """The port that stands in for the one of an address."""
        public, path = address[2], address[3]
        started = re.search(rf"--port {public}\b", self.page)
        if public not in self._ports and path == "/v1" and not started:
            self._ports[public] = self._model_port
        if public not in self._ports and path == "/fhir" and not started:
            self._start(f"medagent serve --port {self._own_port(public)}", f"--port {public}")
        return self._own_port(public)

    def _own_port(self, public: str) -> str:
        if public not in self._ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self._ports[public] = str(free.getsockname()[1])
        return self._ports[public]

    def _start(self, text: str, command: str) -> tuple[int, list[str]]:
        """Start a server in the background, and wait until its port is open."""
        quiet = subprocess.DEVNULL
        server = subprocess.Popen(
            [*self._shell, f"exec {text}"], cwd=self.folder, env=self._environment, stdout=quiet, stderr=quiet
        )
        self._servers.append(server)
        port = re.search(r"--port (\d+)", command)
        deadline = time.monotonic() + 60
        while port and server.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(self._ports[port[1]])), 1):
                return 0, []
            time.sleep(0.1)
        return server.poll() or 0, []

    def _bring_files(self, command: str) -> None:
        """Copy the files that a command reads and that another page, or the reader, provides."""
        for name in dict.fromkeys(re.findall(r"(?<![\w/.-])[\w-]+\.(?:py|json|ndjson|jsonl|toml)\b", command)):
            if (self.folder / name).exists():
                continue
            if name in PUBLISHED and not PUBLISHED[name].exists():
                raise Missing(f"{PUBLISHED[name]} is missing")
            if name in PUBLISHED:
                shutil.copy(PUBLISHED[name], self.folder / name)
            elif text := _program(name):
                (self.folder / name).write_text(text, encoding="utf-8")

    def _bring_logs(self, command: str) -> None:
        """Copy the recorded logs that a command reads."""
        names = [name for name in LOGS if name in command and not (self.folder / name).exists()]
        if not names:
            return
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(ROOT / "tests" / "data" / "logs" / "logs.tar.xz") as logs:
                logs.extractall(folder, filter="data")
            for name in names:
                (self.folder / name).parent.mkdir(exist_ok=True)
                shutil.move(Path(folder) / LOGS[name], self.folder / name)

    def _bring_runs(self, command: str) -> None:
        """Make the runs that a command reads and that the page does not make."""
        for run in RUN.finditer(command):
            if (self.folder / run[0]).exists() or f"--round {run[1]}" in command:
                continue
            who = f"--agent {run[2]}" if run[2] in ("reference", "nop", "constant") else f"--model {run[2]} --limit 20"
            self.run(f"medagent run --version v2 --round {run[1]} {who} --quiet")


def ran(command: str, folder: Path) -> list[str]:
    """The lines that a command prints in a folder. Raises CalledProcessError if it fails."""
    code, lines = Stage("", folder, NOWHERE).run(command)
    if code:
        raise subprocess.CalledProcessError(code, command, "\n".join(lines))
    return lines


def _program(name: str) -> str:
    """The text of a file that a page shows under this name; empty if none does."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        for fence in FENCE.finditer(text):
            found_name = NAME.search(text[: fence.start()])
            if found_name and found_name[1] == name:
                return fence[2]
    return ""


def play(text: str, folder: Path, sections: int | None = None, *, codes: bool = False) -> Outcome:
    """Run the commands of a page in a folder; only its first sections' commands, if a number is set.

    With `codes`, a command that fails must show it: the last line of its output is `exit 2`, for example.

    Raises Missing if a file of ../shared that stands in for a reader's is missing.
    """
    from tests.loopback import ModelServer

    parts = re.split(r"(?m)^(?=## )", text)
    played = "".join(parts[: len(parts) if sections is None else sections + 1])
    outcome, end = Outcome(), 0
    with ModelServer(reply=_reply) as model, Stage(text, folder, model.url) as stage:
        for fence in FENCE.finditer(played):
            before = played[: fence.start()]
            outcome.text += played[end : fence.start()]
            end = fence.end()
            name = NAME.search(before)
            if name and fence[1] not in ("console", "sh"):
                (folder / name[1]).parent.mkdir(parents=True, exist_ok=True)
                (folder / name[1]).write_text(fence[2], encoding="utf-8")
            ran = [_step(step, stage, outcome, codes) for step in steps(fence[1], fence[2])]
            changed = any(lines is not None for lines in ran)
            outcome.text += _block(fence, ran) if changed else fence[0]
    outcome.text += played[end:] + "".join(parts[len(parts) if sections is None else sections + 1 :])
    return outcome


def _reply(request: dict[str, Any]) -> str:
    """The reply of the model: a label to a judge's question, an answer otherwise."""
    return '{"evaluation": "CORRECT"}' if "CORRECT" in str(request) else "FINISH([-1])"


def _step(step: Step, stage: Stage, outcome: Outcome, codes: bool) -> list[str] | None:
    """Run one command; its output if it differs from the page's."""
    if reason := outside(step.command):
        outcome.skipped.append(f"{step.command}: {reason}")
        return None
    code, printed = stage.run(step.command)
    if codes and code and step.shown:
        printed = [*printed, f"exit {code}"]
    if not step.shown:
        if code:
            outcome.problems.append(f"$ {step.command}\nexit status {code}\n" + "\n".join(printed))
        return None
    if same(step.shown, printed):
        return None
    outcome.problems.append("\n".join([f"$ {step.command}", "printed:", *printed, "the page shows:", *step.shown]))
    return printed


def _block(fence: re.Match[str], ran: list[list[str] | None]) -> str:
    """A console block with the new outputs."""
    lines = ["```console"]
    for step, printed in zip(steps(fence[1], fence[2]), ran, strict=True):
        lines += [f"$ {step.command}", *(step.shown if printed is None else printed)]
    return "\n".join([*lines, "```"])


def main(arguments: list[str]) -> int:
    """Play pages, write changed outputs, and print the problems and what was not run."""
    failed = False
    for path in [Path(argument) for argument in arguments] or pages():
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="medagent-page-") as folder:
            outcome = play(text, Path(folder))
        path.write_text(outcome.text, encoding="utf-8")
        failed |= bool(outcome.problems)
        print(f"{path}: {len(list(commands(text)))} commands, {len(outcome.skipped)} not run")
        for line in (*outcome.problems, *(f"not run: {skipped}" for skipped in outcome.skipped)):
            print("  " + line.replace("\n", "\n  "))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
