"""The MCP inspector's command line lists the tools and plays an episode over HTTP, and reads a record over stdio."""

import json
import subprocess
import sys
from pathlib import Path

import medagent

MEDAGENT = str(Path(sys.executable).with_name("medagent"))
INSPECTOR = ["npx", "--yes", "@modelcontextprotocol/inspector@>=2.12 <3", "--cli"]
MRN = next(task.patient for task in medagent.tasks() if task.id == "task1_3")
PATIENCE = ["--connect-timeout", "120000"]


def asked(*words: str) -> dict:
    """What the inspector prints."""
    done = subprocess.run([*INSPECTOR, *words, *PATIENCE], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def called(target: list[str], tool: str, **arguments: str) -> dict:
    """What a tool answers."""
    given = [word for name, value in arguments.items() for word in ("--tool-arg", f"{name}={value}")]
    found = asked(*target, "--method", "tools/call", "--tool-name", tool, *given)
    assert not found.get("isError"), found
    return found


process = subprocess.Popen(
    [MEDAGENT, "mcp", "--http", "0", "--results-dir", "results"], stderr=subprocess.PIPE, text=True
)
try:
    url = ""
    while not url.startswith("http"):
        line = process.stderr.readline()
        assert line, "the server has ended"
        url = line.removeprefix("medagent: ").strip()
    tools = asked(url, "--method", "tools/list")["tools"]
    assert all(tool["title"] and len(tool["annotations"]) == 4 for tool in tools), tools
    for wrong in ([], ["S0"]):
        started = called([url], "start_task", task_id="task1_3")["structuredContent"]
        reply = called([url], "get_patient", episode=started["episode"], identifier=MRN)["content"][0]["text"]
        patient = json.loads(reply[reply.index("{") :])["entry"][0]["resource"]["id"]
        called([url], "finish", episode=started["episode"], answers=json.dumps(wrong or [patient]))
finally:
    process.terminate()
    process.communicate(timeout=60)
assert [item.correct for item in medagent.grade("results/v2_r1_mcp").items] == [True, False]

Path("patients.ndjson").write_text('{"resourceType": "Patient", "id": "a", "gender": "female"}\n')
record = [MEDAGENT, "mcp", "--ehr", "patients.ndjson"]
names = [tool["name"] for tool in asked(*record, "--method", "tools/list")["tools"]]
assert names == ["fhir_capabilities", "fhir_search", "fhir_read"], names
found = called(record, "fhir_search", type="Patient", parameters=json.dumps({"gender": "female"}))
assert json.loads(found["content"][0]["text"])["entry"][0]["resource"]["id"] == "a"
none = called(record, "fhir_search", type="Patient", parameters=json.dumps({"gender": "male"}))
assert "entry" not in json.loads(none["content"][0]["text"]), none
version = subprocess.run([*INSPECTOR, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
print(f"inspector {version}: {len(tools)} tools listed, a right and a wrong episode over HTTP, a record over stdio")
