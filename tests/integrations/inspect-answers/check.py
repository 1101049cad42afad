"""Inspect asks PromptCBLUE's lines as a task of its own; its log is graded, in both of its formats."""

import os
from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import exact
from inspect_ai.solver import generate
from mini import endpoint, rows, same_table

os.environ["LOCAL_API_KEY"] = "k"
samples = [Sample(id=row["sample_id"], input=row["input"], target=row["target"]) for row in rows()]
with endpoint() as url:
    for form in ("eval", "json"):
        (log,) = inspect_eval(
            Task(dataset=MemoryDataset(samples), solver=generate(), scorer=exact()),
            model="openai-api/local/mini",
            model_base_url=url,
            log_dir=form,
            log_format=form,
            display="none",
        )
        assert log.status == "success", log.error
        (written,) = Path(form).glob(f"*.{form}")
        result = same_table(url, written)
print(f"{result}, from .eval and from .json")
