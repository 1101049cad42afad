"""Inspect's viewer shows an exported run: the list, a sample's calls, its score with the reason."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

from playwright.sync_api import sync_playwright

import medagent

MEDAGENT = str(Path(sys.executable).with_name("medagent"))
PATIENT, OTHER = (task.patient for task in medagent.tasks() if task.id in ("task1_1", "task1_3"))
SEARCH = "GET http://localhost:8080/fhir/Patient?identifier="
SCRIPT = {
    "task1_1#1": [f"{SEARCH}{PATIENT}", "FINISH([84])"],
    "task1_3#1": [f"{SEARCH}{OTHER}", f'FINISH(["{OTHER}"])'],
}


def look(folder: Path, picture: Path) -> None:
    """List, sample and scoring in the viewer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["inspect", "view", "--log-dir", str(folder), "--port", str(port)], stdout=subprocess.DEVNULL
    )
    try:
        for _ in range(120):
            try:
                urlopen(f"http://127.0.0.1:{port}/")
                break
            except OSError:
                time.sleep(0.5)
        with sync_playwright() as browser:
            page = browser.chromium.launch(executable_path="/usr/bin/chromium").new_page(
                viewport={"width": 1280, "height": 760}
            )
            page.goto(f"http://127.0.0.1:{port}/")
            page.get_by_text("medagent/medagentbench").last.click()
            page.get_by_text("task1_").first.click()
            page.get_by_text("get_patient").first.wait_for()
            page.screenshot(path=picture.with_stem("inspect-view-transcript"))
            page.get_by_role("tab", name="Scoring").click()
            page.get_by_text("wrong-value").first.wait_for()
            page.screenshot(path=picture)
            page.goto(page.url.replace("task1_1", "task1_3"))
            page.get_by_text("all checks passed").first.wait_for()
            assert not page.get_by_text("wrong-value").count(), "the right answer has a reason why it is wrong"
    finally:
        server.terminate()
        server.wait()


def command(*words: str) -> None:
    """Run medagent."""
    subprocess.run([MEDAGENT, *words], check=True, stdout=subprocess.DEVNULL)


Path("script.json").write_text(json.dumps(SCRIPT))
command("run", "--model", "scripted:script.json", "--ids", "task1_1,task1_3")
command("run", "promptcblue", "--agent", "majority", "--allow-empty", "1", "--limit", "4")
transcripts = [
    turn.content
    for path in Path("results").glob("*scripted*")
    for row in medagent.load_run(path).rows()
    for turn in row.transcript
]
assert any('"total": 1' in text and f'"value": "{PATIENT}"' in text for text in transcripts), (
    "the search has no patient"
)
Path("shown").mkdir()  # two logs: one alone is opened at once, without the list
for number, folder in enumerate(sorted(path.parent for path in Path("results").glob("*/run.json"))):
    command("export", "inspect", str(folder), f"shown/{number}.eval")
look(Path("shown"), Path(os.environ.get("PICTURES", "."), "inspect-view.png"))
print("the list, a call, a wrong answer's reason and a right answer are shown")
