"""The messages to SimpleQA's judges, and how their replies are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from medagent.benchmarks.simpleqa._recipes import published_place
from medagent.core.errors import UserError
from medagent.judging.rubric import BUNDLED, Case, Query, Rubric, Subject
from refsol.agreement import Labelled
from refsol.simpleqa.cases import Side, judge_cases
from refsol.simpleqa.opencompass import is_opencompass, read_opencompass
from refsol.simpleqa.prompts import JudgePrompt, judge_prompt
from refsol.simpleqa.published import JUDGE_PROMPTS
from refsol.simpleqa.score import label_of, verdict_of
from refsol.simpleqa.verdict import LABELS, RULES, Rule


class SimpleqaRubric(Rubric[JudgePrompt]):
    """One query per answer. Its prompt is bundled, from a user's file, or copied from OpenCompass."""

    labels = LABELS
    rules = RULES
    retries = 1
    prompt_type = JudgePrompt

    def prompt(self, name: str) -> JudgePrompt:
        """See `Rubric.prompt`. Raises UserError, InputError."""
        if name == BUNDLED:
            return judge_prompt()
        if name not in JUDGE_PROMPTS:
            return judge_prompt(Path(name))
        if not published_place(name).is_file():
            owner = "simple-evals" if name == "simple-evals" else "OpenCompass"
            raise UserError(
                f"--judge-prompt {name}: is not part of medagent; copy it from a checkout of {owner} with"
                " medagent simpleqa prompt CHECKOUT"
            )
        return judge_prompt(published_place(name))

    def queries(self, subject: Subject, prompt: JudgePrompt, labels: Mapping[str, str]) -> Sequence[Query]:
        question = subject.item
        return (Query(prompt.fill(question.question, question.target, subject.answer), prompt.system),)

    def read(self, reply: str, rule: str) -> str | None:
        return label_of(reply, _rule(rule))

    def verdict(self, reply: str, rule: str) -> str | None:
        """See `Rubric.verdict`. Published rules give a verdict for every reply."""
        return verdict_of(reply, _rule(rule))

    def recorded(self, path: Path, rule: str) -> Mapping[str, Sequence[Labelled]]:
        """See `Rubric.recorded`: the labels of OpenCompass' output."""
        rule, labels = self.known_rule(rule), dict[str, list[Labelled]]()
        for judged in read_opencompass(path) if is_opencompass(path) else ():
            for row in judged.rows:
                for judge, reply in row.judged.items():
                    label = None if reply is None else self.read(reply, rule)
                    labels.setdefault(judge, []).append(Labelled(f"{row.id}/{row.language}", label, (row.id,)))
        return labels

    def cases(self, prompt: JudgePrompt) -> Sequence[Case]:
        """See `Rubric.cases`. The label of a partial answer depends on whose criteria the prompt states."""
        side = side_of(prompt)
        return [
            Case(
                case.id,
                case.kind,
                Query(prompt.fill(case.question, case.gold, case.reply), prompt.system),
                case.accepted(side),
                case.reply,
            )
            for case in judge_cases()
        ]


def prompt_name(prompt: JudgePrompt) -> str:
    """The name of a judge prompt: a published name, `bundled`, or `other`."""
    names = {digest: name for name, digest in JUDGE_PROMPTS.items()}
    return names.get(prompt.digest) or side_of(prompt)


def _rule(name: str) -> Rule:
    return next(rule for rule in RULES if rule == name)


def side_of(prompt: JudgePrompt) -> Side:
    """Whose criteria a prompt states."""
    if prompt.digest == judge_prompt().digest:
        return "bundled"
    return "published" if prompt.digest in JUDGE_PROMPTS.values() else "other"
