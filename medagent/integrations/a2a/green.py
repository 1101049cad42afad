"""The green agent: assesses the purple agent that a message names, and answers with figures and verdicts."""

from __future__ import annotations

from typing import Any

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater

from medagent.core.errors import MedagentError, UserError
from medagent.integrations.a2a.assess import Assessment, Assessor, outcome, summary


class Green(AgentExecutor):  # type: ignore[misc]  # the a2a package may be missing where types are checked
    """Answers requests for assessments by tasks whose artifact is the outcome."""

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
            wanted = Assessment.read(context.get_user_input())
        except UserError as error:
            await updater.reject(updater.new_agent_message([new_text_part(str(error))]))
            return
        await updater.start_work(updater.new_agent_message([new_text_part(f"assessing {wanted.address}")]))
        try:
            report = await self._assessor.run(wanted, task.id)
        except MedagentError as error:
            await updater.failed(updater.new_agent_message([new_text_part(str(error))]))
            return
        found = outcome(report)
        parts = [new_text_part(summary(found)), new_data_part(found)]
        await updater.add_artifact(parts, name="assessment")
        await updater.complete()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        """See `AgentExecutor.cancel`: the run is cancelled with the task, and what was finished is kept."""
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()
