"""Records a real HAPI's answers to the requests in cases.txt, in tests/data/hapi/live.jsonl.xz.

    python -m tools.hapi_diff.record http://localhost:18080/fhir [--loaded] [--only HEADING] [--cases chains.txt]

HAPI must be fresh and empty (or `--loaded` with the recorded data alone):
`hapi.sh PORT --hapi.fhir.reuse_cached_search_results_millis=-1` starts it. `--cases` records another file: chains.txt,
or searches.txt, the searches over resources of many types. A line of these files is `METHOD URL`, then, each after
` | `, `H:{…}` for headers, and a body. `#` begins a heading for the following rows. Ids from the server are blanked in
the recording. `--only TEXT` repeats only the requests below headings with that text, and does not change the other
rows; these requests must depend only on the data and on each other. tests/fhir_server/test_live.py replays the rows.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator
from pathlib import Path

from tools.hapi_diff.client import JSON, Case
from tools.hapi_diff.servers import Side, load

RECORDINGS = {"cases.txt": "live.jsonl.xz", "chains.txt": "chains.jsonl.xz", "searches.txt": "searches.jsonl.xz"}
"""The files of requests, each with the file of the answers to them."""
DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "hapi"


def cases(path: Path) -> Iterator[Case]:
    """The requests of a file, each with the heading above it as its rule."""
    rule = ""
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("#"):
            rule = line.removeprefix("#").strip()
        elif line.strip():
            request, *rest = line.split(" | ")
            method, _, url = request.partition(" ")
            headers = {
                key: value for part in rest if part.startswith("H:") for key, value in json.loads(part[2:]).items()
            }
            body = next((part for part in rest if not part.startswith("H:")), None)
            if body is not None and not any(name.lower() == "content-type" for name in headers):
                headers |= JSON
            yield Case(method, url, headers, body, rule)


def main() -> None:
    """Send the requests in order and write one line a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hapi", metavar="URL", help="the base address of the HAPI")
    parser.add_argument("--loaded", action="store_true", help="the recorded data are already in HAPI")
    parser.add_argument("--only", default="", metavar="HEADING", help="only requests below headings with this text")
    parser.add_argument("--cases", default="cases.txt", choices=[*RECORDINGS], help="the file of requests")
    options = parser.parse_args()
    recording = DATA / RECORDINGS[options.cases]
    side = Side(options.hapi)
    if not options.loaded:
        load(side.client)
    recorded = iter(lzma.decompress(recording.read_bytes()).decode("utf-8").splitlines() if options.only else ())
    rows = []
    for case in cases(Path(__file__).with_name(options.cases)):
        if options.only not in case.rule:
            rows.append(next(line for line in recorded if options.only not in json.loads(line)["rule"]))
            continue
        answer = side.send(case)
        request = {"method": case.method, "url": case.url, "headers": case.headers, "body": case.body}
        response = {"status": answer.status, "headers": answer.headers, "body": answer.body}
        rows.append(json.dumps({"rule": case.rule, "request": request, "response": response}, ensure_ascii=False))
    text = "\n".join(rows) + "\n"
    recording.write_bytes(lzma.compress(text.encode("utf-8"), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(rows)} rows, {recording.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
