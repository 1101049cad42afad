"""Repeats the reference agent's actions, which are in acts.json, over HTTP. FINISH sends the answers."""

import json
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

FINISH = "http://localhost:8080/finish"


def send(method: str, url: str, body: str = "") -> None:
    """Send one request. Raises HTTPError if it is refused."""
    kind = "json-patch" if method == "PATCH" and body.startswith("[") else "fhir"
    headers = {"Content-Type": f"application/{kind}+json"} if body else {}
    request = Request(quote(url, safe="/:?&=%+,|"), body.encode() or None, headers, method=method)
    with urlopen(request) as response:
        print(method, url, response.status, len(response.read()))


if __name__ == "__main__":
    for act in json.loads(Path(__file__).with_name("acts.json").read_text("utf-8")):
        if act.startswith("FINISH("):
            send("POST", FINISH, act[len("FINISH(") : -1])
        else:
            words, _, resource = act.partition("\n")
            method, _, url = words.partition(" ")
            send(method, url, resource)
