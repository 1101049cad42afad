"""Tasks for Harbor: `tasks` writes their folders; the other modules run in the containers.

The agent's container contains the package and the patients, but no facts. In it `server` runs as a separate user: it
serves the record, takes the answers and writes a `log`. Harbor stops that container before it starts the verifier's,
where `verify` grades the log with the facts of that task, which are in the task's tests/. So neither the agent nor a
process that it leaves behind can read a fact, change the log, or reach the reward.
"""
