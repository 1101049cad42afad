#!/bin/bash
# Grades the log of the agent's container with the facts beside this file, and writes 1.0 or 0.0 to reward.json.
{path}exec /opt/medagent/venv/bin/medagent harbor verify --benchmark {benchmark} "$(dirname "$0")" /var/lib/medagent/episode.jsonl /logs/verifier
