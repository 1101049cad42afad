"""Tasks and data sets of MedAgentBench: the bundled one, the imported official one, and users' own task files."""

from medagent.benchmarks.medagentbench.tasks.dataset import (
    DATASETS,
    TASK_TYPES,
    Dataset,
    Task,
    load_dataset,
    load_tasks_file,
    select,
)

__all__ = ["DATASETS", "TASK_TYPES", "Dataset", "Task", "load_dataset", "load_tasks_file", "select"]
