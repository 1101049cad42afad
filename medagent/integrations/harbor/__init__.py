"""Tasks as Harbor runs them: `tasks` writes the folders, the rest runs in their containers.

The agent's container holds the package and the patients, and no facts: `server` answers for the record and for the
answers, as a user of its own, and writes a `log`. Harbor stops that container before it opens the verifier's, where
`verify` grades the log by the facts of the one task, which lie in the task's tests/. So neither the agent nor a process
that it leaves behind can read a fact, change the log, or reach the reward.
"""
