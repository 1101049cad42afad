"""The objects that Inspect finds by the entry point `inspect_ai`, whose key must be the import package (`medagent`)."""

from medagent.integrations.inspect._solvers import episode, private_record, single_unit
from medagent.integrations.inspect._tasks import installed
from medagent.integrations.inspect.scorers import grounded, medagent_score, overall

__all__ = ["episode", "grounded", "medagent_score", "overall", "private_record", "single_unit"]

for _name, _task in installed().items():
    globals()[_name.replace("-", "_")] = _task
