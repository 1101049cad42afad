"""The pytest plugin: fixtures over `medagent.testing`. `pytest -p no:medagent` disables it.

This module imports only pytest, because pytest loads it in every suite of an environment, used or not. Fixtures that
open something are per test, so tests may run in any order and under pytest-xdist; each xdist worker reads the data
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from medagent.benchmarks.clinical.tasks import Task
    from medagent.fhir_episodes.episodes import SyncEpisode
    from medagent.testing._data import FhirData
    from medagent.testing._fhir import FhirDouble
    from medagent.testing._httpx2_adapter import DoubleTransport2
    from medagent.testing._httpx_adapter import DoubleTransport
    from medagent.testing._model import ModelDouble, Step

MARK = 'fhir(data=None, seed=None, writes="execute"): the data of the fixture `fhir`, and how it answers writes'


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option `--fhir-record`."""
    parser.getgroup("medagent").addoption(
        "--fhir-record",
        action="store_true",
        help="fhir.record(base=…): send requests to the servers, and record the cassettes again",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", MARK)


@pytest.fixture(scope="session")
def fhir_data() -> Iterator[FhirData]:
    """Opens FHIR data as servers, each source once a session: `fhir_data("hospital")`, `fhir_data("patients.ndjson")`,
    `fhir_data([{"resourceType": …}])`, `fhir_data(seed=7)`.
    """
    from medagent.testing._data import FhirData

    with FhirData() as data:
        yield data


@pytest.fixture
def fhir(request: pytest.FixtureRequest, fhir_data: FhirData) -> Iterator[FhirDouble]:
    """A FHIR server in process, private to the test: empty, or with the data of `@pytest.mark.fhir(data=…)`."""
    from medagent.core.errors import UserError
    from medagent.core.scrub import safe_name

    mark, fault = _mark(request), ""
    try:
        opened = fhir_data.double(mark.get("data"), seed=mark.get("seed"), writes=mark.get("writes", "execute"))
    except UserError as error:
        fault = str(error)
    if fault:  # outside of `except`, so that pytest does not print the error a second time
        pytest.fail(f"mark fhir: {fault}", pytrace=False)
    name = request.node.nodeid.partition("::")[2].replace("::", ".")
    opened.cassette = request.path.parent / "cassettes" / request.path.stem / f"{safe_name(name)}.jsonl"
    opened.live = request.config.getoption("--fhir-record")
    with opened as double:
        yield double
    if double.unanswered:
        pytest.fail(f"requests that are not in the cassette: {', '.join(double.unanswered)}", pytrace=False)


@pytest.fixture
def fhir_url(fhir: FhirDouble) -> str:
    """The base of `fhir` on a loopback port, for code that opens its own sockets."""
    return fhir.url


@pytest.fixture
def fhir_httpx(fhir: FhirDouble) -> DoubleTransport:
    """`fhir` as a transport: `httpx.Client(transport=fhir_httpx, base_url="https://ehr.example.org/fhir")`."""
    return fhir.transport()


@pytest.fixture
def fhir_httpx2(fhir: FhirDouble) -> DoubleTransport2:
    """`fhir` as a transport of httpx2: `httpx2.Client(transport=fhir_httpx2, base_url=…)`."""
    return fhir.transport2()


@pytest.fixture
def scripted_model() -> Iterator[Callable[[list[Step]], ModelDouble]]:
    """A chat endpoint with the replies of a list: `scripted_model(["GET …", "FINISH([1])"]).url`."""
    from medagent.testing._model import ModelDouble

    with ExitStack() as stack:
        yield lambda replies: stack.enter_context(ModelDouble(replies))


@pytest.fixture
def medagent_task() -> Callable[..., Task]:
    """A task of MedAgentBench by its id: `medagent_task("task5_7")`; its options are options of `medagent.tasks`."""
    from medagent._api import tasks
    from medagent.core.errors import UserError

    def find(task_id: str, **options: Any) -> Task:
        for task in tasks(**options):
            if task.id == task_id:
                chosen: Task = task
                return chosen
        raise UserError(f"{task_id}: the data set does not contain this task")

    return find


@pytest.fixture
def medagent_episode(request: pytest.FixtureRequest) -> Iterator[Callable[..., SyncEpisode]]:
    """An open episode of a task, already reset: `medagent_episode("task5_7")`. The options are the same as for
    `medagent.episode`; `@pytest.mark.fhir(writes="execute")` executes its writes.
    """
    from medagent._api import episode

    marked = {name: value for name, value in _mark(request).items() if name == "writes"}
    with ExitStack() as stack:

        def opened(task: Task | str, **options: Any) -> SyncEpisode:
            started = stack.enter_context(episode(task, **{**marked, **options}))
            started.reset()
            return started

        yield opened


@pytest.fixture
def assert_grade() -> Callable[..., None]:
    """`medagent.testing.assert_grade`."""
    from medagent.testing._asserts import assert_grade

    return assert_grade


@pytest.fixture
def assert_no_regression() -> Callable[..., None]:
    """`medagent.testing.assert_no_regression`."""
    from medagent.testing._asserts import assert_no_regression

    return assert_no_regression


def _mark(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of the nearest mark. Fails the test if an argument is invalid."""
    mark = request.node.get_closest_marker("fhir")
    options: dict[str, Any] = dict(mark.kwargs) if mark else {}
    unknown = sorted(set(options) - {"data", "seed", "writes"}) + [
        repr(argument) for argument in (mark.args if mark else ())
    ]
    if unknown:
        pytest.fail(f"mark fhir: unknown argument {unknown[0]}; it takes data=, seed= and writes=", pytrace=False)
    if options.get("writes", "execute") not in ("ack", "execute"):
        pytest.fail(f"mark fhir: writes is {options['writes']!r}, not 'execute' or 'ack'", pytrace=False)
    return options
