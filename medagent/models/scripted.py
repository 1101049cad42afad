"""A chat model that replays a script, for examples, demonstrations and tests without an endpoint.

The n-th reply of a script answers a conversation with n - 1 assistant messages. So the double is stateless: the same
conversation always gets the same reply, even after a resume.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from medagent.core.errors import ModelError, UserError
from medagent.models.base import Completion, Message, Tool, Usage
from medagent.models.limiter import EndpointStats
from refsol.files import anything, read_json

Reply = str | Completion
Script = Sequence[Reply] | Mapping[str, Sequence[Reply]] | Callable[[Sequence[Message], str], Reply]

ANY_SESSION = "*"
_SCRIPTED = "scripted:"


def check_script(model: str, items: Collection[str]) -> None:
    """Raises UserError if a scripted model has replies for something that is not one of these items."""
    if not model.startswith(_SCRIPTED):
        return
    path = Path(model.removeprefix(_SCRIPTED))
    script = ScriptedModel.from_file(path).script
    for key in script if isinstance(script, Mapping) else ():
        if key != ANY_SESSION and key.partition("#")[0] not in items:
            raise UserError(
                f"{path}: {key!r}: not an item of the set; a key is an item, an item and trial (ITEM#2), or *"
            )


class ScriptedModel:
    """Replies from a list, from one list per item (`*` for all others), or from `function(messages, session)`. A list
    for an item and trial (`task2_18#2`) goes before the one for the item.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self.name = name
        self.stats = EndpointStats(limit=0)
        self.script = script

    @classmethod
    def from_file(cls, path: Path) -> ScriptedModel:
        """Read a script from a JSON file: a list of replies, or an object with a list per session. Raises UserError."""
        script = read_json(path, anything, expected="a script of replies is expected", error=UserError)
        scripts = script.values() if isinstance(script, dict) else [script]
        if not all(isinstance(s, list) and all(isinstance(reply, str) for reply in s) for s in scripts):
            raise UserError(f"{path}: a script is a list of texts, or an object with one such list per session")
        return cls(script, name=f"scripted:{path.stem}")

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        """The scripted reply; every four characters count as a token. Raises ModelError after the end of the script."""
        reply = self._reply(messages, session)
        if isinstance(reply, Completion):
            return reply
        prompt = sum(len(message.content) for message in messages)
        return Completion(text=reply, usage=Usage(prompt=prompt // 4, completion=len(reply) // 4), finish_reason="stop")

    async def aclose(self) -> None:
        """Nothing to close."""

    def _reply(self, messages: Sequence[Message], session: str) -> Reply:
        if callable(self.script):
            return self.script(messages, session)
        replies = self.script
        if isinstance(replies, Mapping):
            item = session.partition("#")[0]
            replies = next((replies[key] for key in (session, item, ANY_SESSION) if key in replies), ())
        turn = sum(message.role == "assistant" for message in messages)
        if turn >= len(replies):
            raise ModelError(f"the script of {session or 'this conversation'} ends after {len(replies)} replies")
        return replies[turn]
