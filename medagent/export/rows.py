"""One row per item, as JSON lines or Parquet with the same fields. `datasets.load_dataset` reads both."""

from __future__ import annotations

import json
from pathlib import Path

from medagent._finished import Code
from medagent.core.errors import UserError
from medagent.core.writing import followed, replacing, write_whole
from medagent.export._records import read_records


def export_jsonl(folder: Path, out: Path, code: Code | None = None, *, with_patient_data: bool = False) -> int:
    """Write JSON lines. Returns their number. Raises UserError."""
    report, records = read_records(folder, code, with_patient_data=with_patient_data)
    lines = [json.dumps(record.as_json(report)) + "\n" for record in records]
    write_whole(followed(out), "".join(lines))
    return len(lines)


def export_parquet(folder: Path, out: Path, code: Code | None = None, *, with_patient_data: bool = False) -> int:
    """Write one Parquet file. Returns the number of rows. Raises UserError, also if pyarrow is not installed."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise UserError("export parquet needs pyarrow: pip install 'medagent[parquet]', or use export jsonl") from None
    report, records = read_records(folder, code, with_patient_data=with_patient_data)
    rows = [record.as_json(report) for record in records]
    text, whole, real, truth = arrow.string(), arrow.int64(), arrow.float64(), arrow.bool_()
    function = arrow.struct([("name", text), ("arguments", text)])
    call = arrow.struct([("id", text), ("type", text), ("function", function)])
    message = arrow.struct(
        [("role", text), ("content", text), ("tool_calls", arrow.list_(call)), ("tool_call_id", text)]
    )
    check = arrow.struct([("name", text), ("passed", truth), ("expected", text), ("actual", text)])
    kinds = {
        "trial": whole,
        "messages": arrow.list_(message),
        "reasoning": arrow.list_(text),
        "times": arrow.list_(text),
        "correct": truth,
        "grounded": truth,
        "harmed": truth,
        "harmful": truth,
        "score": real,
        "checks": arrow.list_(check),
        "prompt_tokens": whole,
        "completion_tokens": whole,
        "cost": real,
        "seconds": real,
    }
    names = list(rows[0]) if rows else ["item"]
    schema = arrow.schema([(name, kinds.get(name, text)) for name in names])
    with replacing(followed(out)) as aside:
        parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), aside)
    return len(rows)
