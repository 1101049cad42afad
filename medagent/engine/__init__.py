"""The run engine: takes units, writes journal rows. It does not depend on any benchmark.

`__all__` lists the names for benchmarks with units of their own.
"""

from medagent.engine.boundary import blame
from medagent.engine.data_sets import ImportedData
from medagent.engine.folder import JournalKind, Run
from medagent.engine.plan import Job, Stage, Unit, Worker
from medagent.engine.report import BackgroundNote, DataRef, ItemOutcome, ItemView, ShownMessage, TableLine, TableSection
from medagent.engine.rows import Row, Spent
from medagent.engine.scores import Metrics, Scored

__all__ = [
    "BackgroundNote",
    "DataRef",
    "ImportedData",
    "ItemOutcome",
    "ItemView",
    "Job",
    "JournalKind",
    "Metrics",
    "Row",
    "Run",
    "Scored",
    "ShownMessage",
    "Spent",
    "Stage",
    "TableLine",
    "TableSection",
    "Unit",
    "Worker",
    "blame",
]
