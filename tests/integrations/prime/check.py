"""Prime's own command installs the verifiers environment from `environments/`, where prime-rl looks too, and pushes it.

The environment for the installation is new and has medagent only. The hub is a loopback server that notes what arrives.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
NAME = "medagent-verifiers"
LOADED = f"""
from verifiers.v1.utils.loaders import load_taskset, taskset_config_type, harness_class
taskset = load_taskset(taskset_config_type("{NAME}")(id="{NAME}"))
print(len(list(taskset)), harness_class("{NAME}").__name__)
"""
posted: dict[str, Any] = {}
uploaded: dict[str, int] = {}


class Hub(BaseHTTPRequestHandler):
    """The calls of `prime env push`."""

    def do_POST(self) -> None:
        """Answer as the hub does; `posted` gets the body."""
        step = self.path.rstrip("/").rpartition("/")[2]
        posted[step] = json.loads(self.body() or b"{}")
        address = f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]  # an HTTPServer
        answers = {
            "resolve": {"id": "e1", "owner": {"name": "me"}, "created": True},
            "wheels": {"wheel_id": "w1", "upload_url": f"{address}/wheel"},
            "versions": {"version_id": "v1", "upload_url": f"{address}/source"},
            "finalize": {"success": True},
        }
        self.answer(json.dumps({"data": answers[step]}).encode())

    def do_PUT(self) -> None:
        """Take a file."""
        uploaded[self.path] = len(self.body())
        self.answer(b"{}")

    def body(self) -> bytes:
        """What was sent."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, body: bytes) -> None:
        """Send JSON."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def installed() -> str:
    """Install the environment by its name into a new virtual environment; what verifiers loads from there."""
    home = Path("target").absolute()
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    subprocess.run([home / "bin/python", "-m", "pip", "install", "--quiet", ROOT], check=True)
    prime = str(Path(sys.executable).with_name("prime"))
    path = os.environ | {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    command = [prime, "env", "install", NAME, "--with", "pip"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=path).stdout
    assert "Found local environment" in said, said
    command[3] = "medagent-nothing"
    assert subprocess.run(command, capture_output=True, check=False, env=path).returncode, "it installs any name"
    return subprocess.check_output([home / "bin/python", "-c", LOADED], text=True).strip()


def pushed() -> None:
    """Push to the loopback hub: tags, API and licence arrive, with a wheel and the sources."""
    hub = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    account = {"PRIME_API_BASE_URL": f"http://127.0.0.1:{hub.server_port}", "PRIME_API_KEY": "k", "HOME": os.getcwd()}
    command = [str(Path(sys.executable).with_name("prime")), "env", "push", NAME]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | account)
    hub.shutdown()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Successfully pushed me/medagent-verifiers" in ran.stdout, ran.stdout
    wheel = posted["wheels"]
    assert wheel["runtime_hint"] == "VERIFIERS_V1", wheel
    assert {"medicine", "fhir", "train", "eval"} <= set(wheel["metadata"]["tags"]), wheel
    assert wheel["metadata"]["license"] == "Apache-2.0", wheel
    assert set(uploaded) == {"/wheel", "/source"}, uploaded
    assert min(uploaded.values()) > 2000, uploaded


shutil.copytree(ROOT / "environments", "environments", ignore=shutil.ignore_patterns("__pycache__", "dist"))
loaded = installed()
assert loaded == "300 MedAgentBenchHarness", loaded
pushed()
print(f"installs from environments/ into an empty environment ({loaded}); a push sends wheel, sources, tags and API v1")
