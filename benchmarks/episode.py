"""Measures what an episode adds to its model calls: its CPU compared with the same episode over bare aiohttp.

Run: `python -m benchmarks.episode`. The endpoint answers at once. It and each measured client are separate processes,
and the clients take turns. Session and embedded FHIR server are the same for both; this project adds settings, keys,
limits, retries, the dialect, the transcript and the journal.
"""

from __future__ import annotations

from benchmarks.engine import measured, model_server, peer
from benchmarks.table import machine, row
from tests.medagent.benchmarks.medagentbench.oracle import text_reply

EPISODES = 300


def main() -> None:
    machine()
    with model_server(text_reply, 0.0) as url:
        turns = [(measured(url, EPISODES, 64), peer(url, "aiohttp alone")) for _ in range(5)]
    calls = sum(turns[0][0].calls) / EPISODES
    ours, bare = min(figures.cpu for figures, _ in turns) / EPISODES * 1000, min(figure for _, figure in turns)
    row("an episode: CPU, times that of bare aiohttp", "≤ 2.5", ours / bare, f"× {bare:.2f} ms")
    row("an episode: CPU", "", ours, f"ms ({calls:.1f} model calls)")


if __name__ == "__main__":
    main()
