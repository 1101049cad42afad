"""The published agents of FHIR-AgentBench beside ours: 50 questions by each strategy that needs no code.

Both ask one scripted model over HTTP and one record: theirs `medagent serve`, by a session that drops what a type
cannot be searched by and asks for pages of 1,000, as their Google store does; ours with `--handling lenient`. The
model's calls follow from the question, its answers are digests of all that it was shown. So equal answers mean equal
conversations.

Needs shared/fhiragentbench beside the checkout. MIMIC_SQLITE may name the demo imported already.
"""

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mini import chat_endpoint

# litellm imports `mcp`, and the folder of the checks has one.
sys.path = [path for path in sys.path if Path(path) != Path(__file__).resolve().parents[1]]
SHARED = Path(__file__).resolve().parents[4] / "shared" / "fhiragentbench"
MEDAGENT = os.environ["MEDAGENT"]
STRATEGIES = ("single_turn_request", "single_turn_resource", "multi_turn_resource")
COUNT = 50
KINDS = ("Encounter", "Condition", "Procedure", "MedicationRequest", "Location", "Patient", "Specimen", "Medication")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def served(data: Path) -> Iterator[str]:
    """The record over HTTP; its base."""
    port = free_port()
    server = subprocess.Popen([MEDAGENT, "serve", "--data", data, "--port", str(port)], stdout=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}/fhir"
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{base}/metadata", timeout=30).close()
                break
            except OSError:
                time.sleep(0.1)
        yield base
    finally:
        server.terminate()
        server.wait()


def number(text: str, most: int) -> int:
    """A number below `most` that follows from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % most


def text_of(content: Any) -> str:
    """A content as it is compared: what a server refuses is an error in either case, in words of its own."""
    text = content if isinstance(content, str) else json.dumps(content)
    return "error" if text.startswith("{'error'") else text


def call(asked: str, place: int, name: str, **arguments: str) -> dict[str, Any]:
    made = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call_{number(asked, 10**6)}_{place}", "type": "function", "function": made}


def reply(request: dict[str, Any]) -> str | dict[str, Any]:
    """What the scripted model says: calls at first, at last a digest of what it was shown."""
    messages = request["messages"]
    asked = next(text_of(message["content"]) for message in messages if message["role"] == "user")
    patient = re.search(r"Patient FHIR ID is ([\w-]+)\.", asked)
    assert patient is not None
    turn = sum(message["role"] == "assistant" for message in messages)
    offered = [tool["function"]["name"] for tool in request.get("tools") or []]
    shown = json.dumps([text_of(message.get("content")) for message in messages if message["role"] != "assistant"])
    digest = hashlib.sha256(shown.encode()).hexdigest()
    if not offered:
        return f"The answer is {digest}."
    way = number(asked, 12)
    if way == 0 and turn == 0:
        return "I need no tool for that."
    if way == 1 and turn == 0:
        return {"tool_calls": [call(asked, 0, "delete_everything", really="yes")]}
    many = "get_resources_by_resource_id" in offered
    if many and way == 2:
        return "Let me think once more."
    if many and turn >= 1 + way % 3:
        return f"Done.\nThe final answer is: {digest}"
    first = number(f"{asked}{turn}", len(KINDS))
    kinds = [KINDS[(first + step) % len(KINDS)] for step in range(1 + way % 3)]
    if way == 3:
        kinds.append("Observation")
    if "fhir_request_get" in offered:
        queries = [f"{kind}?patient={patient[1]}" for kind in kinds]
        queries += [f"Patient/{patient[1]}", f"Encounter?patient={patient[1]}&_count=1"][: way % 3]
        queries = ["Nonsense?x=y"] if way == 6 else queries
        return {
            "tool_calls": [call(asked, n, "fhir_request_get", query_string=query) for n, query in enumerate(queries)]
        }
    by_patient = [
        call(asked, n, "get_resources_by_patient_fhir_id", resource_type=kind, patient_fhir_id=patient[1])
        for n, kind in enumerate(kinds)
    ]
    if way in (4, 5):
        by_patient.append(call(asked, 9, "get_resources_by_resource_id", resource_type="Location", resource_id="x"))
    return {"tool_calls": by_patient}


def questions(data: Path) -> list[dict[str, str]]:
    """The first 50 questions that need no chart events, of patients in turn."""
    import csv

    csv.field_size_limit(1 << 24)
    with (SHARED / "questions.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if "vital_name" not in row["template"] and "eight" not in row["template"]
        ]
    rows.sort(key=lambda row: number(row["question_id"], 1 << 30))
    return rows[:COUNT]


def theirs(rows: list[dict[str, str]], strategy: str, model: str, base: str) -> dict[str, tuple[Any, Any]]:
    """Answers and found ids of the published agents, by question id."""
    sys.path.insert(0, str(SHARED / "published"))
    sys.argv = ["run_agent.py"]
    for name in ("PROJECT_ID", "LOCATION", "DATASET_ID", "STORE_ID"):
        os.environ[f"FHIR_{name}"] = "x"
    import fhir_client
    import pandas
    from utils.core_utils import curate_input_dataset, run_agent_with_input

    fhir_client.get_auth_session_from_default = lambda: Store(base)
    fhir_client.fhir_store_construct_url = lambda *_: base
    table = pandas.DataFrame(rows)
    table["assumption"] = [row["assumption"] or None for row in rows]
    done = {}
    for row, asked in zip(rows, curate_input_dataset(table, True), strict=True):
        made = run_agent_with_input((asked, strategy, "gpt-4o-mini", False, model, False))
        assert made["error"] is None, (row["question_id"], made["error"])
        done[row["question_id"]] = (made["agent_answer"], ids(made["agent_fhir_resources"]))
    return done


class Store:
    """A session of `requests` that asks as their Google store answers: parameters that a type does not have are
    dropped, and a page has 1,000 resources.
    """

    def __init__(self, base: str) -> None:
        import requests

        self._base, self._session = base, requests.Session()
        self._known: dict[str, set[str]] = {}
        statement = self._session.get(f"{base}/metadata").json()
        for resource in statement["rest"][0]["resource"]:
            self._known[resource["type"]] = {name["name"] for name in resource.get("searchParam", [])}

    def get(self, url: str) -> Any:
        path, _, query = url.removeprefix(self._base + "/").partition("?")
        if path not in self._known or "_getpages" in query:
            return self._session.get(url)
        pairs = [pair for pair in query.split("&") if pair]
        kept = [pair for pair in pairs if pair.partition("=")[0] in self._known[path] or pair.startswith("_")]
        if not any(pair.startswith("_count=") for pair in kept):
            kept.append("_count=1000")
        return self._session.get(f"{self._base}/{path}?{'&'.join(kept)}")


def ids(found: Any) -> dict[str, list[str]]:
    return {kind: names for kind, names in (found or {}).items() if names}


def ours(rows: list[dict[str, str]], strategy: str, model: str, data: Path) -> dict[str, tuple[Any, Any]]:
    """The same of `medagent run`, by way of its output file."""
    chosen = ",".join(row["question_id"] for row in rows)
    words = [
        *("run", "fhir-agentbench", "--dataset", SHARED / "questions.csv", "--ehr", data, "--ids", chosen, "--quiet"),
        *("--protocol", strategy, "--model", "gpt-4o-mini", "--base-url", model, "--handling", "lenient"),
        *("--prompt", f"published={SHARED / 'published'}", "--results-dir", "results", "--concurrency", "2"),
    ]
    subprocess.run([MEDAGENT, *words], check=True, stdout=subprocess.DEVNULL)
    folder = next(path for path in Path("results").iterdir() if (path / "run.json").is_file())
    subprocess.run([MEDAGENT, "export", "official", folder, strategy], check=True, stdout=subprocess.DEVNULL)
    folder.rename(Path("results") / f".{strategy}")
    made = json.loads((Path(strategy) / "outputs.json").read_text(encoding="utf-8"))
    return {row["question_id"]: (row["agent_answer"], ids(row["agent_fhir_resources"])) for row in made}


os.environ |= {"OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
# tiktoken downloads its table, and litellm has a copy of it.
os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(find_spec("litellm").origin).parent / "litellm_core_utils" / "tokenizers")
data = Path(os.environ.get("MIMIC_SQLITE", "mimic.sqlite")).resolve()
if not data.is_file():
    files = sorted((SHARED / "mimic-demo").glob("*.ndjson.gz"))
    subprocess.run([MEDAGENT, "ehr", "import", *files, "--data", data], check=True, stdout=subprocess.DEVNULL)
rows = questions(data)
endings: dict[str, int] = {}
with chat_endpoint(reply) as model, served(data) as base:
    for strategy in os.environ.get("STRATEGIES", ",".join(STRATEGIES)).split(","):
        began = time.monotonic()
        reproduced = ours(rows, strategy, model, data)
        middle = time.monotonic()
        published = theirs(rows, strategy, model, base)
        assert reproduced.keys() == published.keys()
        for question, (answer, found) in published.items():
            assert reproduced[question][0] == answer, (strategy, question, reproduced[question][0], answer)
            assert reproduced[question][1] == found, (strategy, question)
            kind = (
                "over the cap"
                if "Input tokens" in answer
                else "answers"
                if re.search("[0-9a-f]{64}", answer)
                else answer
            )
            endings[kind[:40]] = endings.get(kind[:40], 0) + 1
        distinct = {answer for answer, _ in published.values()}
        assert len(distinct) > len(published) / 2, "digests that do not differ show no difference"
        print(f"{strategy}: {len(published)} equal, {middle - began:.0f} s and {time.monotonic() - middle:.0f} s")
print(f"{COUNT} questions by {len(STRATEGIES)} strategies: all found ids and answers equal ({endings})")
