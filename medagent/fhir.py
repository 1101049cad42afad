"""Episodes on a FHIR server, and what a benchmark with FHIR episodes is made of: its texts, patients and charts.

`medagent.episode` and `medagent.serve_episodes` return the types of episodes.
"""

from medagent.core.paths import data_dir
from medagent.fhir_data.embedded import EhrFile, imported_file
from medagent.fhir_episodes.episode import Scripted
from medagent.fhir_episodes.episodes import Episode, EpisodeContext, SyncEpisode
from medagent.fhir_episodes.http_episodes import HttpEpisode, HttpEpisodes
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.fhir_episodes.session import Outcome, Session

__all__ = [
    "EhrFile",
    "Episode",
    "EpisodeContext",
    "HttpEpisode",
    "HttpEpisodes",
    "Outcome",
    "Protocol",
    "Scripted",
    "Session",
    "SyncEpisode",
    "data_dir",
    "imported_file",
    "load_protocol",
]
