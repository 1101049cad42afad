"""Episodes on a FHIR server: the types of `medagent.episode` and `medagent.serve_episodes`, and of what they return."""

from medagent.fhir_episodes.episodes import Episode, EpisodeContext, SyncEpisode
from medagent.fhir_episodes.http_episodes import HttpEpisode, HttpEpisodes
from medagent.fhir_episodes.session import Outcome, Session

__all__ = ["Episode", "EpisodeContext", "HttpEpisode", "HttpEpisodes", "Outcome", "Session", "SyncEpisode"]
