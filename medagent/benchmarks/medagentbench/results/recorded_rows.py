"""The row of an item in a results file."""

from __future__ import annotations

from collections.abc import Sequence

from medagent.fhir_episodes.episode import EpisodeRow
from refsol.history import HistoryMessage
from refsol.medagentbench.recorded import RecordedEpisode, ResultItem


class RecordedRow(EpisodeRow):
    """The row of an item in a results file. Its answer may be any JSON value. `problem` is why it cannot be graded."""

    item: ResultItem
    episode: RecordedEpisode
    problem: str

    @property
    def post_history(self) -> Sequence[HistoryMessage]:
        return [HistoryMessage(message.role, message.content) for message in self.item.post_history]
