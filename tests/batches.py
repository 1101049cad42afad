"""A provider's batch API on the loopback interface: OpenAI's (files and batches) and Anthropic's (message batches)."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Json = dict[str, Any]


class BatchServer:
    """`answer` gives the reply's text, or None for a request that fails. A batch is done at the `polls`-th look.

    `creates` says what becomes of the replies to the requests that create batches, in their order: `lost` (the
    connection closes), `late` (no reply, and the batch is listed at the second look), `error` (500), `garbled` (no
    JSON), `never` (the connection closes, and there is no batch). `watch` sees each request's method and path, before
    it is carried out and before it is answered. `line` changes a line of results. `gone` are batches that the provider
    has forgotten, `failed` those that failed as a whole.
    """

    def __init__(
        self,
        answer: Callable[[Json], str | None],
        *,
        polls: int = 1,
        creates: Sequence[str] = (),
        watch: Callable[[str, str, bool], None] = lambda *_: None,
        line: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.answer, self.polls, self.line = answer, polls, line
        self._creates = iter(creates)
        self.created = 0
        """Requests to create a batch."""
        self.downloads = 0
        self.gone: set[str] = set()
        self.failed: set[str] = set()
        self._hidden: set[str] = set()
        self._inputs: dict[str, str] = {}
        self.batches: dict[str, dict[str, Json]] = {}
        """The requests of each batch, by their ids."""
        self.looks: dict[str, int] = {}
        self._files: dict[str, bytes] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                watch("POST", self.path, False)
                answer = outer._post(self.path, body)
                watch("POST", self.path, True)
                self._send(*answer)

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                watch("GET", path, False)
                answer = outer._get(self.path)
                watch("GET", path, True)
                self._send(*answer)

            def _send(self, status: int, content: bytes) -> None:
                if status == 0:
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> BatchServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, count: int) -> None:
        """Batches of somebody else's, newer than all others."""
        for _ in range(count):
            name = f"batch{len(self.batches) + 1}"
            self.batches[name], self._inputs[name] = {}, "of somebody else"

    def _new(self, requests: dict[str, Json], source: str = "") -> tuple[int, bytes]:
        self.created += 1
        fate = next(self._creates, "")
        if fate == "never":
            return 0, b""
        name = f"batch{len(self.batches) + 1}"
        self.batches[name], self._inputs[name] = requests, source
        if fate == "late":
            self._hidden.add(name)
        if fate == "error":
            return 500, b"{}"
        if fate == "garbled":
            return 200, b"{"
        return (0, b"") if fate else (200, _json({"id": name}))

    def _post(self, path: str, body: bytes) -> tuple[int, bytes]:
        if path == "/v1/files":
            content = re.split(rb"\r\n\r\n", body, maxsplit=2)[2].rsplit(b"\r\n--", 1)[0]
            self._files[f"file{len(self._files)}"] = content
            return 200, _json({"id": list(self._files)[-1]})
        if path == "/v1/batches":
            source = json.loads(body)["input_file_id"]
            lines = [json.loads(line) for line in self._files[source].splitlines() if line]
            return self._new({line["custom_id"]: line["body"] for line in lines}, source)
        if path == "/v1/messages/batches":
            rows = json.loads(body)["requests"]
            return self._new({row["custom_id"]: row["params"] for row in rows})
        return 404, b"{}"

    def _get(self, path: str) -> tuple[int, bytes]:
        path, _, query = path.partition("?")
        parts = path.removeprefix("/v1/").split("/")
        if parts[-1] == "batches":
            return self._page(query) if path in ("/v1/batches", "/v1/messages/batches") else (404, b"{}")
        name = next(part for part in parts if part.startswith(("batch", "out")) and part != "batches")
        if name.removeprefix("out") in self.gone:
            return 404, b"{}"
        if name.startswith("out"):
            self.downloads += 1
            return 200, b"".join(self.line(self._openai_line(request)) for request in self.batches[name[3:]].items())
        if parts[-1] == "results":
            self.downloads += 1
            return 200, b"".join(self.line(self._anthropic_line(request)) for request in self.batches[name].items())
        self.looks[name] = self.looks.get(name, 0) + 1
        done = self.looks[name] >= self.polls
        if "messages" in parts:
            return 200, _json({"id": name, "processing_status": "ended" if done else "in_progress"})
        if name in self.failed:
            return 200, _json({"id": name, "status": "failed", "errors": {"data": [{"message": "bad input"}]}})
        state = {"id": name, "status": "completed" if done else "in_progress"}
        return 200, _json(state | {"output_file_id": f"out{name}"} if done else state)

    def _page(self, query: str) -> tuple[int, bytes]:
        """The batches, the newest first, two a page."""
        names = [name for name in reversed(self.batches) if name not in self._hidden]
        self._hidden.clear()
        last = next((part.partition("=")[2] for part in query.split("&") if part.startswith("after")), "")
        rest = names[names.index(last) + 1 :] if last else names
        page = [
            {
                "id": name,
                "input_file_id": self._inputs[name],
                "request_counts": {"processing": len(self.batches[name]), "succeeded": 0},
            }
            for name in rest[:2]
        ]
        return 200, _json({"data": page, "has_more": len(rest) > 2})

    def _openai_line(self, request: tuple[str, Json]) -> bytes:
        text = self.answer(request[1])
        message = {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
        usage = {"usage": {"prompt_tokens": 10, "completion_tokens": 2}}
        good = {"response": {"status_code": 200, "body": message | usage}, "error": None}
        bad = {"response": {"status_code": 500, "body": {}}, "error": {"message": "overloaded"}}
        return _json({"custom_id": request[0], **(bad if text is None else good)}) + b"\n"

    def _anthropic_line(self, request: tuple[str, Json]) -> bytes:
        text = self.answer(request[1])
        message = {"content": [{"type": "text", "text": text}], "usage": {"input_tokens": 10, "output_tokens": 2}}
        good = {"type": "succeeded", "message": message | {"stop_reason": "end_turn"}}
        return _json({"custom_id": request[0], "result": {"type": "expired"} if text is None else good}) + b"\n"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
