"""Executes docs/notebook.ipynb and writes its outputs into it.

    pip install nbclient ipykernel && python tools/notebook.py

`tests/test_notebook.py` executes its cells without a kernel.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

PAGE = Path(__file__).resolve().parents[1] / "docs" / "notebook.ipynb"


def main() -> None:
    """Execute the notebook in an empty folder; times of the run stay out of the file."""
    notebook = nbformat.read(PAGE, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, record_timing=False, resources={"metadata": {"path": folder}}).execute()
    nbformat.write(notebook, PAGE)


if __name__ == "__main__":
    main()
