"""A run as an Inspect AI log, made with Inspect's own types: one sample per item and trial (Inspect's epoch).

The sample's store contains the row of the journal, which the scorers of `medagent.integrations.inspect` read. So
`inspect score` grades an exported run like a run of `inspect eval`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medagent._finished import Code
from medagent.benchmarks.base import of_folder
from medagent.core.errors import UserError
from medagent.core.scrub import hide
from medagent.core.writing import followed, replacing
from medagent.engine.benchmark import Benchmark
from medagent.engine.folder import Run
from medagent.engine.report import Report
from medagent.engine.rows import OWED, CallSpent, Row
from medagent.export._records import Record, arguments_of, provider, read_records
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.models.wording import strip_thinking

if TYPE_CHECKING:
    from inspect_ai.event import ModelEvent, ToolEvent
    from inspect_ai.log import EvalError, EvalLog, EvalSample, EvalSampleLimit
    from inspect_ai.model import ChatMessage, ModelUsage
    from inspect_ai.scorer import Score

    from medagent.fhir_episodes.tools import Toolbox


LIMITS = {
    "round_limit": ("turn", "max-rounds", 8),
    "context_limit": ("context", "", 0),
    "time_limit": ("time", "unit-time", 0),
    "token_limit": ("token", "unit-tokens", 0),
    "cost_limit": ("cost", "unit-cost", 0),
}
"""By status: Inspect's name of the limit, the option that sets it, and its default (0: the endpoint's own limit)."""
STOP_REASONS = {"length": "max_tokens"}
"""Inspect's names of finish reasons that differ from those of chat completions."""
ERRORS = OWED | {"agent_error", "refused"}
"""The statuses that are an error of the sample in Inspect."""


def export_inspect(folder: Path, out: Path, code: Code | None = None) -> int:
    """Write a log (`.eval` or `.json`). Returns the number of its samples.

    Raises UserError, for example if inspect-ai is not installed or the benchmark does not offer an Inspect task.
    """
    if out.suffix not in (".eval", ".json"):
        raise UserError(f"{out}: the name of an Inspect log must end with .eval or .json")
    try:
        from inspect_ai.log import write_eval_log
    except ImportError:
        raise UserError("export inspect needs inspect-ai: pip install 'medagent[inspect]'") from None
    log = evaluation_log(folder, code)
    with replacing(followed(out)) as aside:
        write_eval_log(log, str(aside))
    return len(log.samples or ())


def evaluation_log(folder: Path, code: Code | None = None) -> EvalLog:
    """The log of a run's folder. Raises UserError."""
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSpec, EvalStats, HeadlineMetric, recompute_metrics

    from medagent.integrations.inspect.scorers import HEADLINE, medagent_score, metric_definitions
    from medagent.integrations.inspect.source import options_of_run

    report, records = read_records(folder, code)
    run, benchmark = Run(folder), of_folder(folder, code)
    options = options_of_run(benchmark, run)
    judged = benchmark.judged(run) or {}
    scorer = medagent_score.__name__
    toolbox = benchmark.toolbox(benchmark.source(run, {})) if isinstance(benchmark, FhirBenchmark) else None
    context = _LogContext(
        report, options, scorer, judged, _model(report, run.document.get("places", {})), benchmark, toolbox
    )
    samples = [context.sample(record, record.row) for record in records if record.row is not None]
    log = EvalLog(
        status="success" if not report.owed else "cancelled",
        eval=EvalSpec(
            eval_id=context.id("eval"),
            run_id=context.id("run"),
            task_id=context.id("task"),  # the viewer shows only one log per task id
            created=_time(report.started),
            task=f"medagent/{report.benchmark}",
            task_version=report.data.version or 0,
            task_args=options,
            dataset=EvalDataset(
                name=f"{report.data.name} {report.data.version}".strip(),
                samples=len({sample.id for sample in samples}),
                sample_ids=list(dict.fromkeys(str(sample.id) for sample in samples)),
            ),
            model=context.model,
            config=EvalConfig(epochs=max((sample.epoch for sample in samples), default=1), epochs_reducer=["mean"]),
            packages={name: version for name, version in report.versions.items() if name == "medagent"},
            metadata={"settings": report.settings, "data": report.data.model_dump(), "versions": report.versions},
            scorers=[{"name": scorer, "metrics": metric_definitions()}],
            headline_metric=HeadlineMetric(metric=HEADLINE),
        ),
        stats=EvalStats(
            started_at=_time(report.started),
            completed_at=_time(report.ended),
            model_usage={context.model: _usage(report.spent)} if report.spent.calls else {},
        ),
        samples=samples,
    )
    recompute_metrics(log)  # also makes the reductions, which the constructor does not take
    return log


@dataclass(frozen=True, slots=True)
class _LogContext:
    """The values that all samples of one log share."""

    report: Report
    options: dict[str, Any]
    scorer: str
    judged: Mapping[str, Any]
    model: str
    benchmark: Benchmark[Any, Any]
    toolbox: Toolbox | None
    """The tools that the actions of episodes call."""

    def id(self, *parts: str) -> str:
        """An id that is equal for equal runs and differs between runs."""
        report = self.report
        whole = [report.benchmark, report.settings, report.data.digest, report.started, *parts]
        return uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(whole, sort_keys=True)).hex

    def sample(self, record: Record, row: Row) -> EvalSample:
        """The sample of one item in one trial."""
        from inspect_ai.event import ScoreEvent
        from inspect_ai.log import EvalSample
        from inspect_ai.model import ModelOutput

        from medagent.integrations.inspect.scorers import as_score
        from medagent.integrations.inspect.source import STORED, stored

        outcome, benchmark = record.outcome, self.report.benchmark
        name = self.id("sample", row.unit)
        messages = _messages(record, name)
        graded = record.scored.score if record.scored else None
        graded = graded and replace(graded, reason=hide(graded.reason))
        score: Score = as_score(benchmark, self.options, graded, self.benchmark.answer(row), outcome.status)
        stored_row = json.loads(hide(json.dumps(stored(benchmark, self.options, row, self.judged.get(row.unit)))))
        answer = next((message.text for message in reversed(messages) if message.role == "assistant"), "")
        at = _time(row.timestamp) or _time(self.report.ended)
        scored = ScoreEvent(score=score, scorer=self.scorer, timestamp=datetime.fromisoformat(at), uuid=f"{name}-score")
        return EvalSample(
            id=outcome.item,
            epoch=outcome.trial,
            input=record.question or (messages[0].text if messages else ""),
            target=record.target,
            messages=messages,
            output=ModelOutput.from_content(self.model, answer),
            scores={self.scorer: score},
            metadata={"group": outcome.group, "cluster": record.cluster, "status": row.status},
            store={STORED: stored_row},
            events=sorted(
                [
                    *_model_events(record, messages, name, self.model),
                    *_tool_events(record, name, row.started or at, self.toolbox),
                    scored,
                ],
                key=lambda event: event.timestamp,
            ),
            model_usage={self.model: _usage(record.spent)} if record.spent.calls else {},
            started_at=_time(row.started) or None,
            completed_at=at or None,
            total_time=row.seconds,
            uuid=name,
            error=_error(row),
            limit=_limit(row, self.report),
        )


def _messages(record: Record, name: str) -> list[ChatMessage]:
    """The messages as Inspect's types, with the original tool calls."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, ChatMessageUser, ContentReasoning, ContentText
    from inspect_ai.tool import ToolCall

    messages: list[ChatMessage] = []
    functions: dict[str, str] = {}
    for number, message in enumerate(record.messages):
        id_ = f"{name}-{number}"
        if message.role == "user":
            messages.append(ChatMessageUser(content=message.content, id=id_))
        elif message.role == "tool":
            function = functions.get(message.call_id)
            messages.append(
                ChatMessageTool(content=message.content, tool_call_id=message.call_id, function=function, id=id_)
            )
        else:
            functions |= {call.id: call.name for call in message.calls}
            parts = [ContentReasoning(reasoning=message.reasoning), ContentText(text=message.content)]
            calls = [ToolCall(id=call.id, function=call.name, arguments=arguments_of(call)) for call in message.calls]
            content = parts if message.reasoning else message.content
            messages.append(ChatMessageAssistant(content=content, tool_calls=calls or None, id=id_))
    return messages


def _model_events(record: Record, messages: list[ChatMessage], name: str, model: str) -> Iterator[ModelEvent]:
    """An event for each message with a known model call, with its time, tokens and seconds."""
    from inspect_ai.event import ModelEvent
    from inspect_ai.model import ChatCompletionChoice, GenerateConfig, ModelOutput

    for number, message in enumerate(record.messages):
        if message.role != "assistant" or message.spent is None or message.time is None:
            continue
        call = message.spent
        reason = STOP_REASONS.get(call.finish_reason or "", call.finish_reason or "stop")
        choice = ChatCompletionChoice(message=messages[number], stop_reason=reason)
        yield ModelEvent(
            uuid=f"{name}-model-{number}",
            timestamp=message.time - timedelta(seconds=call.latency),
            model=model,
            input=messages[:number],
            tools=[],
            tool_choice="auto",
            config=GenerateConfig(),
            output=ModelOutput(model=model, choices=[choice], usage=_usage(call), time=call.latency),
            retries=call.retries or None,
            completed=message.time,
            working_time=call.latency,
        )


def _tool_events(record: Record, name: str, started: str, toolbox: Toolbox | None) -> Iterator[ToolEvent]:
    """The agent's tool calls. Actions of the text protocol become calls of the corresponding functions.

    Calls of a model that states no times are at the start of the sample.
    """
    from inspect_ai.event import ToolEvent

    at = datetime.fromisoformat(started)
    for number, message in enumerate(record.messages):
        at = max(at, message.time or at)
        if message.calls:
            replies = iter([message.content for message in record.messages[number + 1 :] if message.role == "tool"])
            calls = [(call.id, call.name, arguments_of(call), next(replies, "")) for call in message.calls]
        elif message.role == "assistant" and toolbox is not None:
            function, arguments = toolbox.call(strip_thinking(message.content))
            following = record.messages[number + 1 : number + 2]
            reply = following[0].content if following else ""
            calls = [] if function == "message" else [(f"{name}-call-{number}", function, arguments, reply)]
        else:
            calls = []
        for place, (id_, function, arguments, result) in enumerate(calls):
            yield ToolEvent(
                id=id_,
                uuid=f"{name}-tool-{number}-{place}",
                function=function,
                arguments=arguments,
                result=result,
                timestamp=at,
                completed=at,
            )


def _usage(spent: CallSpent) -> ModelUsage:
    """Tokens as Inspect counts them: without those from the provider's cache in the input tokens."""
    from inspect_ai.model import ModelUsage

    return ModelUsage(
        input_tokens=spent.prompt - spent.cached,
        output_tokens=spent.completion,
        total_tokens=spent.prompt + spent.completion + (spent.unreported or 0),
        input_tokens_cache_read=spent.cached or None,
        reasoning_tokens=spent.reasoning or None,
        total_cost=spent.cost,
    )


def _error(row: Row) -> EvalError | None:
    from inspect_ai.log import EvalError

    if row.status not in ERRORS:
        return None
    traceback = hide(row.traceback or "")
    message = hide(f"{row.status}: {row.error}" if row.error else row.status)
    return EvalError(message=message, traceback=traceback, traceback_ansi=traceback)


def _limit(row: Row, report: Report) -> EvalSampleLimit | None:
    from inspect_ai.log import EvalSampleLimit

    if row.status not in LIMITS:
        return None
    kind, option, default = LIMITS[row.status]
    set_to = report.settings.get(option)
    limit = float(set_to) if isinstance(set_to, int | float) else float(default)
    return EvalSampleLimit(type=kind, limit=limit, reason=hide(row.error or row.status))


def _model(report: Report, places: Mapping[str, Any]) -> str:
    """The model's name after Inspect's name of its API; `none/AGENT` for an agent without a model."""
    model, served_by = report.settings.get("model"), provider(report, places)
    if served_by is None:
        return f"none/{report.settings.get('agent') or 'agent'}"
    return f"{served_by}/{model}" if served_by in ("openai", "anthropic") else f"openai-api/{served_by}/{model}"


def _time(text: str) -> str:
    """A time of the journal in Inspect's format, with its zone; empty if the journal does not contain a time."""
    return datetime.fromisoformat(text).astimezone().isoformat() if text else ""
