"""The zip that the PromptCBLUE platform takes: the predictions and the script that parses them, at the top level.

The script is the source of `parse.py` as it stands, so it cannot say anything else than `parse` does.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from refsol.errors import InputError
from refsol.promptcblue import parse
from refsol.promptcblue.files import ProblemsError
from refsol.promptcblue.parse import Problem

SCRIPT_NAME = "post_generate_process.py"
PREDICTIONS_NAME = "test_predictions.json"
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the same files give the same bytes


def package_file(predictions: Path, package: Path) -> tuple[Problem, ...]:
    """Check a predictions file and pack it; the warnings. Raises ProblemsError or InputError: nothing is written."""
    try:
        problems = parse.read_predictions(str(predictions), lambda *_: None)
        if parse.is_fatal(problems):
            raise ProblemsError(problems)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, path in ((PREDICTIONS_NAME, predictions), (SCRIPT_NAME, Path(parse.__file__))):
                entry = zipfile.ZipInfo(name, _NO_TIME)
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        parse.write_aside(str(package), [buffer.getvalue()])
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from None
    return tuple(problems)
