"""What an agent is told of its programs, the same in every sandbox that works here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from medagent.sandbox.base import Limits, Ran, Surface
from medagent.sandbox.programs import Programs
from tests.medagent.sandbox.trying import (
    LIMITS,
    NAMES,
    NOW,
    SURFACE,
    episode,
    left,
    marked,
    opened,
    serve,
    texts,
    working,
)

NOTHING = "The program ended and printed nothing; print(...) shows a value."
BOTH = pytest.mark.parametrize("name", NAMES)


@BOTH
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("print('a', 1)\n2 + 3", "a 1\n5"),
        ("x = 1", NOTHING),
        ("", NOTHING),
        ("# nothing", NOTHING),
        ("print(' ')", NOTHING),
        ("None", NOTHING),
        ("rows[0]['a']", "1"),
        ("print('é 日本')", "é 日本"),
        ("get('u')['args']", "['u']"),
        ("[one['args'] for one in twice('v')]", "[['v'], ['v']]"),
        ("f = get\nf('w', more=[1, None])['more']", "[1, None]"),
        ("try:\n    get('bad')\nexcept RuntimeError as error:\n    print('caught', error)",
         "caught HTTP status 404. Not known"),
        ("get('bad')", "Traceback:\n  program 1, line 1: get('bad')\nRuntimeError: HTTP status 404. Not known"),
        ("import datetime, time\nprint(datetime.datetime.now(), datetime.date.today(), time.time())",
         "2023-11-13 10:15:00 2023-11-13 1699870500.0"),
        ("import datetime\ndatetime.datetime.now(datetime.timezone.utc).isoformat()", "'2023-11-13T10:15:00+00:00'"),
        ("import json\njson.loads('[1]')", "[1]"),
    ],
)  # fmt: skip
def test_a_program_and_what_is_told_of_it(name: str, code: str, told: str) -> None:
    assert texts(name, code) == [told]


@BOTH
def test_variables_and_functions_stay(name: str) -> None:
    *_, last, failed = texts(name, "def half(n):\n    return n / 2", "x = 8", "half(x)", "\nhalf('x')")
    assert last == "4.0"
    assert failed.splitlines()[:3] == [
        "Traceback:",
        "  program 4, line 2: half('x')",
        "  program 1, line 2 in half: return n / 2",
    ]


@BOTH
def test_a_syntax_error_has_its_line(name: str) -> None:
    (told,) = texts(name, "x = 1\nif x\n    pass")
    assert told.startswith("Traceback:\n  program 1, line 2: if x\nSyntaxError: ")


@BOTH
def test_a_long_traceback_is_shortened(name: str) -> None:
    (told,) = texts(name, "def again():\n    return again()\nagain()")
    assert told.endswith("maximum recursion depth exceeded") or "RecursionError" in told
    assert len(told.splitlines()) < 12


@BOTH
def test_output_is_cut_and_counted(name: str) -> None:
    assert texts(name, "print('x' * 2_999)", "1") == [
        "x" * 2_000 + "\n[1,000 more characters of output were cut; the limit is 2,000]",
        "1",
    ]


@BOTH
def test_a_lost_interpreter_names_the_variables_that_are_gone(name: str) -> None:
    codes = ("first = 1\nimport json\n_own = 2", "held = [0] * 10 ** 10", "first", "second = 3", "while True: pass")
    told = texts(name, *codes, limits=replace(LIMITS, seconds=1.5))
    assert told[1] == (
        "Stopped: the program used more than 256 MB of memory. The next program starts in a fresh interpreter; "
        "these variables are gone: first."
    )
    assert told[2].splitlines()[1:] == ["  program 3, line 1: first", "NameError: name 'first' is not defined"]
    assert told[4].endswith("these variables are gone: second.")


@BOTH
def test_requests_are_limited_in_the_whole_episode_and_the_end_is_not_a_request(name: str) -> None:
    told = texts(name, "for n in range(9):\n    print(get(n)['args'])", "get('late')", "finish([1])['args']")
    assert told[0].splitlines()[:5] == ["[0]", "[1]", "[2]", "[3]", "[4]"]
    assert "RuntimeError: the limit of 5 requests was reached" in told[0]
    assert told[1].splitlines()[-1] == (
        "RuntimeError: the limit of 5 requests was reached; no further request is carried out"
    )
    assert told[2] == "[[1]]"


@BOTH
@pytest.mark.parametrize("value", ["{1, 2}", "float('nan')", "b'x'", "[object]"])
def test_what_is_no_json_is_reported_to_the_agent(name: str, value: str) -> None:
    (told,) = texts(name, f"finish({value})")
    assert "TypeError: finish() takes JSON values: " in told or "Error: " in told


@BOTH
def test_the_answer_variable_comes_back(name: str) -> None:
    async def run() -> list[Ran]:
        async with episode(name) as programs:
            return [await programs.run(code) for code in ("x = 1", "answer = {'a': [x]}", "answer = {1}")]

    assert [ran.answer for ran in asyncio.run(run())] == [None, {"a": [1]}, "{1}"]


@BOTH
def test_a_large_reply_is_refused_and_a_middling_one_arrives(name: str) -> None:
    async def large(called: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return "x" * args[0]

    async def run() -> list[str]:
        async with opened(name) as interpreters, Programs(interpreters, SURFACE, LIMITS, large) as programs:
            return [programs.text(await programs.run(f"len(get({n}))")) for n in (5_000_000, 9_000_000)]

    first, second = asyncio.run(run())
    assert first == "5000000"
    assert second.endswith("RuntimeError: the reply is over 8 MB; ask for less")


@BOTH
def test_nothing_is_left_when_an_episode_is_cancelled(name: str) -> None:
    limits = marked(Limits(seconds=60))

    async def run() -> None:
        async with opened(name, limits) as interpreters, Programs(interpreters, SURFACE, limits, serve) as programs:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await programs.run("while True: pass")

    asyncio.run(run())
    assert left(limits) == []


@BOTH
@pytest.mark.parametrize("error", [LookupError, TimeoutError, ConnectionResetError])
def test_what_serving_raises_is_not_the_programs_fault(name: str, error: type[Exception]) -> None:
    async def broken(called: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        raise error("the server is gone")

    async def run() -> None:
        async with opened(name) as interpreters, Programs(interpreters, SURFACE, LIMITS, broken) as programs:
            await programs.run("get(1)")

    working(name)
    with pytest.raises(error, match="the server is gone"):
        asyncio.run(run())


def test_two_runs_see_the_same_hashes() -> None:
    first, second = (texts("bwrap", "hash('a'), list({'x', 'y', 'z', 'w'})") for _ in range(2))
    assert first == second


def test_threads_of_a_program_share_the_pipe() -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(4) as pool:\n    found = list(pool.map(get, 'abcde'))\n"
        "[one['args'] for one in found]"
    )
    assert texts("bwrap", code) == ["[['a'], ['b'], ['c'], ['d'], ['e']]"]


def test_only_the_standard_library_is_on_the_path() -> None:
    told = texts("bwrap", "import sys\nsys.path", "import medagent", "import os\nos.listdir('/')")
    assert "site-packages" not in told[0]
    assert told[1].endswith("No module named 'medagent'")
    assert set(eval(told[2])) <= {"python", "tmp", "lib", "lib64"}


def test_a_dataclass_and_a_frozen_date_behave() -> None:
    code = (
        "import dataclasses, datetime\n@dataclasses.dataclass\nclass Point:\n    x: int\n"
        "day = datetime.datetime.now().date()\n"
        "Point(1), isinstance(day, datetime.date), datetime.datetime(2020, 1, 2) - datetime.timedelta(1), "
        "issubclass(datetime.datetime, datetime.date)"
    )
    surface = Surface(("get",), NOW)
    (told,) = texts("bwrap", code, surface=surface)
    assert told == "(Point(x=1), True, datetime.datetime(2020, 1, 1, 0, 0), True)"


def test_a_program_starts_at_most_64_threads() -> None:
    """The kernel does not apply the limit to root: there, only the number can be checked."""
    limit = "import resource\nresource.getrlimit(resource.RLIMIT_NPROC)"
    threads = """
import threading
wait, started = threading.Event(), []
try:
    for one in [threading.Thread(target=wait.wait) for _ in range(80)]:
        one.start()
        started.append(one)
except RuntimeError as error:
    print(error)
wait.set()
for one in started:
    one.join()
"""
    first, second = texts("bwrap", limit, threads)
    assert first == "(64, 64)"
    assert second == (NOTHING if os.geteuid() == 0 else "can't start new thread")
