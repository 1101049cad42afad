"""What Inspect finds by the entry point `inspect_ai`; its key and the import package must be equal (`medagent`)."""

from medagent.integrations.inspect.scorers import points, refsol, refsol_points, refsol_score
from medagent.integrations.inspect.solvers import episode, private_record, single_unit
from medagent.integrations.inspect.tasks import imapscore, medagentbench, promptcblue, simpleqa

__all__ = [
    "episode",
    "imapscore",
    "medagentbench",
    "points",
    "private_record",
    "promptcblue",
    "refsol",
    "refsol_points",
    "refsol_score",
    "simpleqa",
    "single_unit",
]
