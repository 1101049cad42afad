"""Agents that do more than they should: what they try has to fail, and the reward to stay what it is."""

import shlex
from typing import override

from harbor.agents.base import BaseAgent

PLAYED = (
    "while true; do for n in reward.json reward.txt; do echo '{\"reward\": %d}' > /logs/verifier/$n; done; %s; done"
)
LATER = "curl -s -X POST localhost:8080/finish -d '[\"other\"]'; curl -s -X POST localhost:8080/fhir/Patient -d '{}'"
FORBIDDEN = (
    "ls /opt/medagent",
    "/opt/medagent/venv/bin/medagent --version",
    "/opt/medagent/venv/bin/python -c 'import refsol'",
    "ls /var/lib/medagent",
    "cat /var/lib/medagent/episode.jsonl",
    "echo '{}' >> /var/lib/medagent/episode.jsonl",
    "mv /var/lib/medagent /app",
    "ls /tests",
    "ls /solution",
    "cat /proc/$(pgrep -u fhir | head -1)/environ",
    "kill -9 $(pgrep -u fhir | head -1)",
    "curl -sf localhost:8080/",
    "curl -sf localhost:8080/episodes",
)


class Own(BaseAgent):
    """What both have."""

    @override
    def version(self):
        return "1"

    @override
    async def setup(self, environment):
        pass

    async def stays(self, environment, script):
        """Leave a process behind."""
        done = await environment.exec(f"nohup setsid sh -c {shlex.quote(script)} > /dev/null 2>&1 &")
        assert done.return_code == 0, done


class Thief(Own):
    """Looks for facts, reaches for the log, and writes a reward of its own, again and again; answers nothing."""

    @staticmethod
    @override
    def name():
        return "thief"

    @override
    async def run(self, instruction, environment, context):
        assert (await environment.exec("id -un && pgrep -u fhir")).return_code == 0, "the server is not to be seen"
        for command in FORBIDDEN:
            done = await environment.exec(command)
            assert done.return_code != 0, f"{command}: {done.stdout}"
        await self.stays(environment, PLAYED % (1, "sleep 0.01"))


class Leaver(Own):
    """Does what is right, and leaves a process that goes on answering, ordering, and writing rewards of 0."""

    @staticmethod
    @override
    def name():
        return "leaver"

    @override
    async def run(self, instruction, environment, context):
        await environment.upload_dir(environment.environment_dir.parent / "solution", "/app/solution")
        done = await environment.exec("bash /app/solution/solve.sh")
        assert done.return_code == 0, done
        await self.stays(environment, PLAYED % (0, LATER))
