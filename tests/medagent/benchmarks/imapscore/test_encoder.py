"""The linker's encoder step over a loopback endpoint, responses of another file, and what is kept of calls."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from medagent.agents.reply_cache import ReplyStore
from medagent.benchmarks.imapscore._encoder import EncoderChoice
from medagent.benchmarks.imapscore._samples import Asked, Sampler
from medagent.core.errors import ModelError
from medagent.engine.rows import Spent
from medagent.models.settings import ModelSettings
from refsol.imapscore.graph import RANKED_THRESHOLD, Entity, EntityGraph, Linker
from tests.command import medagent

NAMES = ("chronic renal failure", "chronic cardiac failure")
GRAPH = EntityGraph([Entity(name, (name,)) for name in NAMES])


class Embeddings(BaseHTTPRequestHandler):
    """A vector a text: texts about the heart point one way, all others the other; `wrong` sends one vector too few."""

    asked: ClassVar[list[list[str]]] = []
    wrong: ClassVar[bool] = False

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        Embeddings.asked.append(texts)
        vectors = [[1.0, 0.0] if "cardi" in text else [0.0, 1.0] for text in texts][: -1 if self.wrong else None]
        rows = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        content = json.dumps({"data": rows[::-1]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    Embeddings.asked, Embeddings.wrong = [], False
    server = ThreadingHTTPServer(("127.0.0.1", 0), Embeddings)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def settled(choice: EncoderChoice, value: str) -> frozenset[str]:
    async def work() -> frozenset[str]:
        linker = Linker(GRAPH, RANKED_THRESHOLD)
        async with choice.open(1) as encoder:
            await encoder.settle(linker, [value, NAMES[0]])
        return linker.link(value)

    return asyncio.run(work())


def test_the_nearest_of_the_names_that_are_alike_is_taken(url: str) -> None:
    value = "chronic cardinal failure"  # by letters alone, nearer to "renal" than its meaning is
    choice = EncoderChoice.of(ModelSettings(name="e", base_urls=[url], max_retries=0))
    assert settled(choice, value) == {NAMES[1]}
    assert len(Embeddings.asked) == 1  # an exact name needs no encoder
    Embeddings.wrong = True
    with pytest.raises(ModelError, match="vectors for 3 texts"):
        settled(choice, value)


def test_a_class_of_ones_own_embeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "class E:\n    def __init__(self, settings): pass\n"
        "    def embed(self, texts): return [[1.0, 0.0] if 'card' in text else [0.0, 1.0] for text in texts]\n"
    )
    assert settled(EncoderChoice.of(ModelSettings(name="mine.py:E")), "chronic cardinal failure") == {NAMES[1]}


def test_an_encoder_needs_a_graph() -> None:
    ran = medagent("run", "imapscore", "--model", "m", "--embed-model", "e")
    assert (ran.code, "--embed-model needs --graph" in ran.err) == (1, True)


def test_no_lock_of_a_reply_stays(tmp_path: Path) -> None:
    class Agent:
        def start(self, task: Any, *, key: str, seed: int | None) -> Any:
            return self

        spent = Spent()

        async def next(self, observation: str) -> Any:
            from medagent.agents.base import Move

            return Move("yes")

    async def work() -> int:
        gc.freeze()  # so that the search below is among few objects
        sampler = Sampler(Agent(), {}, ReplyStore(tmp_path / "replies"), 4)
        assert await sampler.samples(Asked("q"), lambda reply: reply, Spent()) == ["yes"] * 3
        gc.collect()
        return len(sampler._locks)

    assert asyncio.run(work()) == 0
