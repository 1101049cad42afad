"""Folders for temporary files that are removed when their process ends, even if it is killed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import weakref
from contextlib import suppress

from fhir_server.errors import ServerError

_REMOVE = 'cat; rm -rf -- "$0"'
"""A shell script. It waits for the end of its input, which comes when the process ends. Then it removes the folder."""


class TemporaryFolder:
    """A temporary folder that `cleanup`, the end of a `with` block, or the end of the process removes.

    It is not a `tempfile.TemporaryDirectory`, because that warns if the end of the process removes it: facts for
    grading stay open until then. `watched`: it is also removed if the process is killed. A shell waits for that;
    without `sh` the folder remains.

    Raises:
        ServerError: no folder can be created.
    """

    def __init__(self, *, watched: bool = False) -> None:
        self._watch: subprocess.Popen[bytes] | None = None
        try:
            self.name = tempfile.mkdtemp(prefix="fhir-server-")
        except OSError as error:
            raise ServerError(
                f"cannot create a temporary folder ({error}); set TMPDIR to a folder that can be written"
            ) from error
        self._remove = weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)
        if watched:
            with suppress(OSError):
                self._watch = subprocess.Popen(
                    ["sh", "-c", _REMOVE, self.name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # so that a signal to the process group does not end it
                )

    def cleanup(self) -> None:
        """Remove the folder now."""
        self._remove()
        if self._watch is not None and self._watch.stdin is not None:
            self._watch.stdin.close()
            self._watch.wait()
            self._watch = None

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *error: object) -> None:
        self.cleanup()
