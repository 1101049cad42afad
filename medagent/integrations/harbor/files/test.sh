#!/bin/bash
# Grades the log of the agent's container by the facts beside this file: reward.json has 1.0 or 0.0.
exec /opt/medagent/venv/bin/medagent harbor verify --benchmark {benchmark} "$(dirname "$0")" /var/lib/medagent/episode.jsonl /logs/verifier
