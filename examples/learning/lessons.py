"""An agent that learns: it writes one sentence about each mistake, and reads all of them before it acts.

    medagent run psb-300 --split dev --sequential score --agent examples/learning/lessons.py:Lessons --model gpt-4o-mini

The lessons are in the agent's folder, one per line. The run copies the folder after each lesson and restores the copy
when it is continued. The agent stores nothing anywhere else.
"""

from medagent import Agent, Message

ASK = (
    "You made a mistake ({kind}) in the task below. Write one sentence that begins with 'When asked' and says what to \
do next time in tasks of this kind. Write nothing else.\n\nTask: {task}\n\nYour messages:\n{messages}"
)


class Lessons(Agent):
    """Acts by a model's text messages. The first message begins with the lessons."""

    @property
    def _file(self):
        return self.context.folder / "lessons.txt"

    @property
    def lessons(self):
        """The sentences that it has learned so far."""
        return self._file.read_text("utf-8").splitlines() if self._file.exists() else []

    async def play(self, task, prompt):
        """Yield the model's messages."""
        learned = "".join(f"- {lesson}\n" for lesson in self.lessons)
        first = f"What you learned from earlier tasks:\n{learned}\n{prompt}" if learned else prompt
        messages = [Message("user", first)]
        while True:
            reply = await self.context.model.complete(messages, session=task.id)
            observation = yield reply.text
            messages += [Message("assistant", reply.text), Message("user", observation)]

    async def learn(self, task, row, score):
        """Add a sentence after a mistake."""
        if score.correct is not False:
            return
        messages = "\n".join(turn.content for turn in row.transcript if turn.role == "agent")
        text = ASK.format(kind=score.kind, task=f"{task.context} {task.instruction}", messages=messages)
        reply = await self.context.model.complete([Message("user", text)], session=f"{task.id} lesson")
        lesson = " ".join(reply.text.split())
        if lesson and lesson not in self.lessons:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{lesson}\n")
