"""The green agent assesses the purple agent that a message names, and answers with figures and verdicts."""

from __future__ import annotations

import asyncio
from typing import Any

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater

from medagent.core.errors import MedagentError, UserError
from medagent.integrations.a2a._assess import Assessment, Assessor, outcome, summary


class Green(AgentExecutor):  # type: ignore[misc]  # the a2a package may be missing where types are checked
    """Answers each request with an A2A task, whose artifact is the outcome of the assessment."""

    def __init__(self, assessor: Assessor) -> None:
        self._assessor = assessor

    async def execute(self, context: Any, event_queue: Any) -> None:
        """See `AgentExecutor.execute`."""
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        try:
            request = Assessment.read(context.get_user_input())
        except UserError as error:
            await updater.reject(updater.new_agent_message([new_text_part(str(error))]))
            return
        await updater.start_work(updater.new_agent_message([new_text_part(f"assessing {request.address}")]))
        news: asyncio.Queue[str] = asyncio.Queue()
        passing = asyncio.create_task(_pass_on(news, updater))
        try:
            report = await self._assessor.run(request, task.id, tell=news.put_nowait)
            await news.join()
        except MedagentError as error:
            await updater.failed(updater.new_agent_message([new_text_part(str(error))]))
            return
        finally:
            passing.cancel()
        result = outcome(report)
        parts = [
            new_text_part(summary(result), media_type="text/plain"),
            new_data_part(result, media_type="application/json"),
        ]
        await updater.add_artifact(parts, name="assessment")
        await updater.complete()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """See `AgentExecutor.cancel`. The run is cancelled too; its finished episodes are kept."""
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def _pass_on(news: asyncio.Queue[str], updater: Any) -> None:
    """Send an update for each finished task."""
    while True:
        text = await news.get()
        await updater.start_work(updater.new_agent_message([new_text_part(text)]))
        news.task_done()
