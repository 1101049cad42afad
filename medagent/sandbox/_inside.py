"""The start-up code of a CPython sandbox. It is sent as text and runs inside, with only the standard library.

It reads programs from a pipe, runs them in one namespace, and sends requests and results back. A frame is four bytes
(the length, big-endian) and JSON. The process outside does not trust the frames, since agents' code runs in the same
process. The frozen clock is for reproducibility, not for safety. `monty_inside` uses the same pipe.
"""

import _thread
import ast
import datetime
import io
import json
import os
import sys
import time
import types
from collections.abc import Callable
from typing import Any, Self

FIRST_FREE_FD = 10
OPEN_FILES = 64
NAMES = 100
FRAMES = 4
"""The number of frames sent from the beginning and from the end of a traceback."""


def restrict(options: dict[str, Any]) -> None:
    """Lower this process's limits irreversibly, before any program runs."""
    import resource

    memory, files = options["memory"], options["files"]
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: files,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: OPEN_FILES,
    }
    if options["processes"]:
        limits[resource.RLIMIT_NPROC] = options["processes"]
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


class Pipe:
    """Sends and receives frames on two descriptors."""

    def __init__(self, most: int, reader: int = 0, writer: int = 1) -> None:
        self._most = most
        self._in = reader
        self._out = writer

    @classmethod
    def moved(cls, most: int) -> Self:
        """The pipe on other descriptors than 0 and 1, so that `os.write(1, …)` and `input()` cannot reach it."""
        import fcntl

        reader, writer = (fcntl.fcntl(standard, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD) for standard in (0, 1))
        nowhere = os.open("/tmp/nowhere", os.O_RDWR | os.O_CREAT)
        os.unlink("/tmp/nowhere")
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        os.close(nowhere)
        return cls(most, reader, writer)

    def send(self, value: dict[str, Any]) -> None:
        """Send a value. Raises TypeError, ValueError or RecursionError if it is not JSON or too long."""
        encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = bytearray()
        for part in encoder.iterencode(value):  # lists that contain each other can be far too long as text
            data += part.encode("utf-8", "replace")
            if len(data) > self._most:
                raise ValueError(f"over {self._most:,} bytes")
        left = memoryview(len(data).to_bytes(4, "big") + data)
        while left:
            left = left[os.write(self._out, left) :]

    def call(self, program: int, name: str, args: Any, kwargs: Any) -> Any:
        """The value of a request. Raises TypeError if it is not JSON, and RuntimeError if it failed."""
        try:
            self.send({"program": program, "call": name, "args": args, "kwargs": kwargs})
        except (TypeError, ValueError, RecursionError) as error:
            text = str(error).replace("MontyClassProxy", "class")
            raise TypeError(f"{name}() takes JSON values: {text}") from None
        reply = self.receive()
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["value"]

    def receive(self) -> dict[str, Any]:
        """The next frame. At the end of the pipe, this process exits."""
        frame: dict[str, Any] = json.loads(self._exactly(int.from_bytes(self._exactly(4), "big")))
        return frame

    def _exactly(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = os.read(self._in, length - len(data))
            if not part:
                os._exit(0)
            data += part
        return bytes(data)


class Output(io.TextIOBase):
    """The printed text: stores the first characters and counts the others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.clear()

    def clear(self) -> None:
        """Remove the stored text."""
        self._parts: list[str] = []
        self._length = self.cut = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Store or count a text."""
        if not isinstance(text, str):
            raise TypeError(f"write() takes a str, not {type(text).__name__}")
        printed = text[: self._most - self._length]
        if printed:
            self._parts.append(printed)
            self._length += len(printed)
        self.cut += len(text) - len(printed)
        return len(text)

    def text(self) -> str:
        """The stored text."""
        return "".join(self._parts)


def freeze(now: datetime.datetime) -> None:
    """Make the clocks of `time` and `datetime` return a constant time. `now` is timezone-aware."""
    seconds = now.timestamp()
    local = now.replace(tzinfo=None)

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, cls.__mro__[1])

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, cls.__mro__[1])

    class date(datetime.date, metaclass=Kind):
        def __repr__(self) -> str:
            return f"datetime.{super().__repr__()}"

        @classmethod
        def today(cls) -> Any:
            return cls(local.year, local.month, local.day)

    class datetime_(datetime.datetime, metaclass=Kind):
        def __repr__(self) -> str:
            return f"datetime.{super().__repr__()}"

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(seconds, tz) if tz is not None else cls.today()

        @classmethod
        def utcnow(cls) -> Any:
            return cls.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.combine(local.date(), local.time())

    for kind, name in ((date, "date"), (datetime_, "datetime")):
        kind.__name__ = kind.__qualname__ = name
        kind.__module__ = "datetime"
        setattr(datetime, name, kind)
    time.time = lambda: seconds
    time.time_ns = lambda: int(seconds * 1_000_000_000)
    for name in ("gmtime", "localtime", "ctime"):
        setattr(time, name, _at(getattr(time, name), seconds))
    gmtime, strftime = time.gmtime, time.strftime
    time.strftime = lambda form, *when: strftime(form, *(when or [gmtime()]))


def _at(function: Callable[[float], Any], seconds: float) -> Callable[..., Any]:
    return lambda when=None: function(seconds if when is None else when)


class Kernel:
    """Runs one episode's programs."""

    def __init__(self, pipe: Pipe, output: Output) -> None:
        self._pipe = pipe
        self._output = output
        self._lock = _thread.allocate_lock()
        self._program = 0
        self._sources: dict[str, list[str]] = {}
        self._answer = ""
        self._module = types.ModuleType("__main__")
        sys.modules["__main__"] = self._module
        self._given: set[str] = set()
        self._tools: dict[str, Any] = {}

    def begin(self, surface: dict[str, Any]) -> None:
        """Create the names that the code can use."""
        freeze(datetime.datetime.fromisoformat(surface["now"]))
        names = vars(self._module)
        for name in surface["calls"]:
            names[name] = self._function(name)
        exec(compile(surface["prelude"], "functions", "exec"), names)
        self._tools = dict(names)
        names.update(surface["variables"])
        self._answer = surface["answer"]
        self._given = set(names)

    def run(self, number: int, code: str) -> dict[str, Any]:
        """Run a program; returns the frame with its result."""
        self._program = number
        vars(self._module).update(self._tools)  # an earlier program may have replaced them
        self._output.clear()
        reserve = bytearray(4_000_000)  # to report a lack of memory needs memory
        done: dict[str, Any] = {"program": number, "failure": None, "limit": None}
        try:
            self._execute(code, f"program {number}")
        except MemoryError:
            del reserve
            done["limit"] = "memory"
        except SystemExit:
            pass
        except BaseException as error:
            done["failure"] = self._failure(error)
        sys.settrace(None)
        sys.setprofile(None)
        if _thread._count():
            done["limit"] = "processes"
        self._program = 0
        names = [name for name, value in vars(self._module).items() if self._own(name, value)]
        done.update(
            output=self._output.text(),
            cut=self._output.cut,
            names=names[:NAMES],
            answer=as_json(vars(self._module).get(self._answer)),
        )
        return done

    def _execute(self, code: str, file: str) -> None:
        self._sources[file] = code.splitlines()
        tree = ast.parse(code, file)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        names = vars(self._module)
        exec(compile(tree, file, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), file, "eval"), names)
            if value is not None:
                self._output.write(f"{value!r}\n")

    def _function(self, name: str) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                if not self._program:
                    raise RuntimeError(f"{name}() was called after the end of its program")
                return self._pipe.call(self._program, name, args, kwargs)

        function.__name__ = function.__qualname__ = name
        return function

    def _failure(self, error: BaseException) -> dict[str, Any]:
        frames: list[tuple[str, int, str]] = []
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename in self._sources:
                frames.append((code.co_filename, trace.tb_lineno, code.co_name))
                if len(frames) > 2 * FRAMES:
                    del frames[FRAMES]
            trace = trace.tb_next
        if isinstance(error, SyntaxError) and error.filename in self._sources:
            frames.append((error.filename, error.lineno or 0, "<module>"))
        try:
            text = error.msg if isinstance(error, SyntaxError) else str(error)
        except BaseException:
            text = "(its text cannot be made)"
        kind = str(type(error).__name__)
        what = f"{kind}: {text}" if text else kind
        return {
            "frames": [[int(file.split()[1]), line, name, self._line(file, line)] for file, line, name in frames],
            "what": what[:2000],
        }

    def _line(self, file: str, number: int) -> str:
        lines = self._sources[file]
        return lines[number - 1].strip()[:200] if 0 < number <= len(lines) else ""

    def _own(self, name: object, value: object) -> bool:
        return (
            isinstance(name, str)
            and name[:1] != "_"
            and name not in self._given
            and type(value) is not types.ModuleType
        )


def as_json(value: Any) -> Any:
    """The value if it is JSON, else its text."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
    return value


def main() -> None:
    """Serve the pipe until it ends."""
    options = json.loads(sys.argv[1])
    del sys.argv[1:]
    restrict(options)
    pipe, output = Pipe.moved(options["frame"]), Output(options["output"])
    sys.path += options["packages"]
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), output, output
    _thread.stack_size(1 << 20)
    kernel = Kernel(pipe, output)
    kernel.begin(pipe.receive())
    pipe.send({"ready": True})
    while True:
        frame = pipe.receive()
        try:
            pipe.send(kernel.run(frame["program"], frame["code"]))
        except (TypeError, ValueError, RecursionError, MemoryError):
            os._exit(1)


if __name__ == "__main__":
    main()
