"""Waits, the limiter, prices and the scripted double."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medagent.core.errors import ModelError, StopRunError, UserError
from medagent.models import open_model
from medagent.models.base import Completion, Message, Usage
from medagent.models.limiter import AdaptiveLimiter, shared_limiter
from medagent.models.prices import find_price
from medagent.models.retry import EndpointFailure, Retries, RetryPolicy, retry_after
from medagent.models.scripted import ScriptedModel
from medagent.models.settings import ModelSettings
from medagent.models.wording import without_thinking
from tests.command import medagent as command

USER = Message("user", "a question")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize("scale", [1, 1000])
def test_retry_after_as_a_moment(scale: int) -> None:
    seconds = retry_after({"retry-after": str(round((time.time() + 100) * scale))})
    assert seconds is not None
    assert 90 < seconds <= 101
    assert retry_after({"retry-after": str(round((time.time() - 100) * scale))}) == 0


def test_a_wait_that_the_server_asks_for_is_no_time_of_the_call() -> None:
    retries = Retries(RetryPolicy(retries=8, seconds=900))
    for _ in range(3):
        assert 600 <= retries.after(EndpointFailure("later", retry_after=600), 0.1) < 601
    with pytest.raises(StopRunError, match="asks to come back at"):
        retries.after(EndpointFailure("later", retry_after=1_000), 0.1)


def test_retry_after_as_a_date() -> None:
    moment = datetime.now(UTC) + timedelta(seconds=100)
    seconds = retry_after({"retry-after": format_datetime(moment, usegmt=True)})
    assert seconds is not None
    assert 90 < seconds <= 100


@given(st.text())
def test_any_retry_after_can_be_read(value: str) -> None:
    seconds = retry_after({"retry-after": value})
    assert seconds is None or seconds >= 0


def test_waits_double_up_to_a_minute_unless_the_server_says() -> None:
    policy = RetryPolicy(retries=10, seconds=600)
    plain, told = EndpointFailure("x"), EndpointFailure("x", retry_after=7)
    assert 0.25 <= policy.wait(1, plain) <= 0.5
    assert 2 <= policy.wait(4, plain) <= 4
    assert 30 <= policy.wait(20, plain) <= 60
    assert 7 <= policy.wait(1, told) < 8


def test_those_whom_a_server_told_the_same_time_do_not_come_back_all_at_once() -> None:
    policy, told = RetryPolicy(), EndpointFailure("x", retry_after=7)
    waits = {policy.wait(1, told) for _ in range(20)}
    assert len(waits) > 10
    assert min(waits) >= 7


def test_the_limiter_is_fair_and_bounded() -> None:
    async def run() -> tuple[int, list[int]]:
        limiter, order, most = AdaptiveLimiter(3), list[int](), 0

        async def enter(n: int) -> None:
            nonlocal most
            async with limiter.slot():
                order.append(n)
                most = max(most, limiter.stats.in_flight)
                await asyncio.sleep(0)

        await asyncio.gather(*(enter(n) for n in range(20)))
        return most, order

    assert asyncio.run(run()) == (3, list(range(20)))


async def _throttled(limiter: AdaptiveLimiter) -> None:
    async with limiter.slot() as throttled:
        await asyncio.sleep(0)  # the others of a burst are let in before the first answer
        throttled()
        raise EndpointFailure("429")


def test_the_limiter_halves_once_for_what_was_under_way_and_never_below_one() -> None:
    async def run() -> list[int]:
        limiter, limits = AdaptiveLimiter(5), list[int]()
        await asyncio.gather(*(_throttled(limiter) for _ in range(3)), return_exceptions=True)
        limits.append(limiter.stats.limit)
        for _ in range(2):
            with pytest.raises(EndpointFailure):
                await _throttled(limiter)
            limits.append(limiter.stats.limit)
        for _ in range(1 + 2 + 3 + 4):
            async with limiter.slot():
                pass
            limits.append(limiter.stats.limit)
        return limits

    assert asyncio.run(run()) == [2, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5]


def test_the_limiter_doubles_after_each_window_until_the_first_failure() -> None:
    async def run() -> list[int]:
        limiter, limits = AdaptiveLimiter(16, start=4), [4]
        for failed in [*[False] * 4, *[False] * 8, True, *[False] * 8]:
            with suppress(EndpointFailure):
                await (_throttled(limiter) if failed else _once(limiter))
            if limits[-1] != limiter.stats.limit:
                limits.append(limiter.stats.limit)
        return limits

    async def _once(limiter: AdaptiveLimiter) -> None:
        async with limiter.slot():
            pass

    assert asyncio.run(run()) == [4, 8, 16, 8, 9]


def test_models_at_one_base_url_share_a_limiter() -> None:
    async def run() -> list[bool]:
        first, second = shared_limiter("http://a", 16, 4, 300), shared_limiter("http://a", 2, 2, 300)
        third = shared_limiter("http://b", 16, 4, 300)
        return [first is second, first is third]

    assert asyncio.run(run()) == [True, False]
    assert asyncio.run(run()) == [True, False]


def test_the_users_prices_go_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    published = find_price("gpt-4o-mini")
    assert published is not None
    table = tmp_path / "prices.toml"
    table.write_text('[models]\n"gpt-4o-mini" = { input = 1, output = 2 }\nlocal = { input = 0, output = 0 }\n')
    monkeypatch.setenv("MEDAGENT_PRICES", str(table))
    mine, local = find_price("gpt-4o-mini"), find_price("local")
    assert mine is not None
    assert local is not None
    assert mine.cost(Usage(prompt=1_000_000, completion=1_000_000, cached=500_000)) == 3
    assert local.cost(Usage(5, 5)) == 0
    assert find_price("gpt-4o") is not None


def test_prices_in_the_config_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "prices.toml").write_text("[models.mine]\ninput = 4\noutput = 8\n")
    price = find_price("mine")
    assert price is not None
    assert price.cost(Usage(250_000, 125_000)) == 2


@pytest.mark.parametrize("name", ["a-local-model", "gpt-4o-of-somebody", "llama-2024-01-01"])
def test_an_unknown_price_is_none(name: str) -> None:
    assert find_price(name) is None


@pytest.mark.parametrize(
    ("model", "base_url", "source"),
    [
        ("gpt-4o", "https://api.openai.com/v1", "gpt-4o of openai"),
        ("openai/gpt-4o", "https://openrouter.ai/api/v1", "of openrouter"),
        ("gpt-4o", "http://127.0.0.1:8000/v1", "gpt-4o of openai"),
        ("claude-sonnet-4-5-20250929", "https://api.anthropic.com/v1", "claude-sonnet-4-5 of anthropic"),
    ],
)
def test_a_price_is_that_of_the_provider_at_the_base_url(model: str, base_url: str, source: str) -> None:
    assert source in str(find_price(model, base_url))


def test_tokens_of_the_cache_have_their_own_prices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = Usage(prompt=1_000_000, cached=400_000, cache_written=100_000, completion=100_000, unreported=100_000)
    table = tmp_path / "prices.toml"
    row = '[models."claude-haiku-4-5"]\ninput = 1\ncached_input = 0.1\ncache_write = 1.25\noutput = 5\n'
    published = find_price("claude-haiku-4-5")
    table.write_text(f'date = "2026-11"\n{row}')
    monkeypatch.setenv("MEDAGENT_PRICES", str(table))
    mine = find_price("claude-haiku-4-5")
    assert mine is not None
    assert published is not None
    assert mine.cost(usage) == published.cost(usage) == pytest.approx(0.5 + 0.04 + 0.125 + 1.0)
    assert str(mine).endswith(f"(claude-haiku-4-5 in {table}, of 2026-11)")
    assert mine.cost(Usage(prompt=10, cached=20, cache_written=5)) == pytest.approx(10 * 0.1 / 1e6)


def test_no_price_is_fetched() -> None:
    before = threading.active_count()
    assert find_price("gpt-4o") is not None
    assert threading.active_count() == before  # genai-prices fetches in a thread, if it is asked to
    assert not genai_prices.wait_prices_updated_sync(timeout=0)


def test_a_dated_snapshot_costs_what_its_model_does() -> None:
    assert find_price("gpt-4o-mini-2024-07-18") == find_price("gpt-4o-mini") is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[models", "not TOML"),
        (b"\xff", "not TOML in UTF-8"),
        (b"[models.x]\ninput = 1", "models.x.output"),
        (b"[models.x]\ninput = -1\noutput = 1", "models.x.input"),
        (b"[models.x]\ninput = nan\noutput = 1", "models.x.input"),
        (None, "cannot be read"),
    ],
)
def test_a_price_table_that_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: bytes | None, said: str
) -> None:
    table = tmp_path / "p.toml"
    if text is not None:
        table.write_bytes(text)
    monkeypatch.setenv("MEDAGENT_PRICES", str(table))
    with pytest.raises(UserError, match=said):
        find_price("x")


def _reply(model: ScriptedModel, *said: str, session: str = "") -> Completion:
    talk = [USER]
    for text in said:
        talk += [Message("assistant", text), USER]
    return asyncio.run(model.complete(talk, session=session))


def test_a_script_answers_by_the_length_of_the_conversation() -> None:
    model = ScriptedModel(["GET x", "FINISH([1])"])
    assert _reply(model).text == "GET x"
    assert _reply(model, "GET x").text == "FINISH([1])"
    assert _reply(model).text == "GET x"
    assert _reply(model).usage.total > 0
    with pytest.raises(ModelError, match="2 replies"):
        _reply(model, "GET x", "FINISH([1])")


def test_a_script_a_session_or_a_function() -> None:
    by_session = ScriptedModel({"task1_1": ["one"], "*": ["other"]})
    assert _reply(by_session, session="task1_1").text == "one"
    assert _reply(by_session, session="task9_9").text == "other"
    whole = Completion("x", reasoning="why")
    assert _reply(ScriptedModel(lambda messages, session: whole)) is whole


def test_a_script_of_an_item_is_for_all_its_trials_unless_one_has_its_own() -> None:
    script = ScriptedModel({"task2_18": ["item"], "task2_18#2": ["second"], "*": ["other"]})
    keys = ("task2_18", "task2_18#1", "task2_18#2", "task2_1#1", "task2_180#1")
    assert [_reply(script, session=key).text for key in keys] == ["item", "item", "second", "other", "other"]


def test_a_script_for_an_item_that_is_not_in_the_set_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "clerk.json"
    path.write_text(json.dumps({"task2_1#1": ["FINISH([])"], "task99_1": ["FINISH([])"]}))
    ran = command("run", "--model", f"scripted:{path}", "--limit", 1, "--results-dir", tmp_path)
    assert (ran.code, "'task99_1': not an item of the set" in ran.err) == (1, True)


def test_a_script_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "clerk.json"
    path.write_text(json.dumps({"*": ["FINISH([])"]}))
    model = open_model(ModelSettings(name=f"scripted:{path}"))
    assert isinstance(model, ScriptedModel)
    assert _reply(model).text == "FINISH([])"


@pytest.mark.parametrize("text", ["[1]", '{"a": "b"}', "nothing", "7", "[" * 100_000])
def test_a_script_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "clerk.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"clerk\.json(:1)?: "):
        ScriptedModel.from_file(path)
    with pytest.raises(UserError, match="cannot be read"):
        ScriptedModel.from_file(tmp_path / "none.json")


def test_importing_the_package_loads_no_http_library() -> None:
    code = "import sys, medagent.models, medagent.models.base; print({'openai', 'httpx', 'aiohttp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("message", "rest"),
    [
        ("Sure. <think>\n```\ndraft\n```\n</think>\n```\nx\n```", "Sure. \n```\nx\n```"),
        ("I wonder\n```\ndraft\n```\n</think>\n```\nx\n```", "\n```\nx\n```"),
        ("<THINK>draft</Think>x <thinking>draft</thinking>y", "x y"),
        ("x\n<think>\n```\ndraft\n```", "x\n"),
        ("```\nprint('<think>', '</think>')\n```\nx", "```\nprint('<think>', '</think>')\n```\nx"),
        ("plain", "plain"),
    ],
)
def test_thinking_is_removed_outside_of_code(message: str, rest: str) -> None:
    assert without_thinking(message) == rest
