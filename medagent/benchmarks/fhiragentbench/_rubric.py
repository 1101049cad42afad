"""The judge's calls in FHIR-AgentBench: `normalize` (does the answer say anything?) and `judge` (is it right?)."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medagent.benchmarks.fhiragentbench.sets import JUDGE_CASES, imported
from medagent.benchmarks.fhiragentbench.settings import A2A
from medagent.benchmarks.fhiragentbench.strategies.prompts import checkout_of
from medagent.core.errors import UserError
from medagent.judging.rubric import BUNDLED, Case, Prompt, Query, Rubric, Subject
from refsol.fhiragentbench import Output, Question, is_error, normalized, of_twin, read_judge, settle
from refsol.fhiragentbench.answers import OVER_CAP
from refsol.fhiragentbench.retrieval import rule_name
from refsol.files import read_jsonl, read_text
from refsol.python_text import python_module

NORMALIZE, JUDGE = "normalize", "judge"
_HERE = Path(__file__).parent / "prompts"
_CASE = {"rule", "question", "true_answer", "answer", "correct"}
_MAX_CASE = 1 << 20
"""The most bytes that are read to see whether a file contains judge cases."""
_FUNCTIONS = {NORMALIZE: "normalize_null_answers_with_llm", JUDGE: "check_answer_correctness_with_llm"}
_FIELDS = {"question": "question", "ref_answer": "true_answer", "answer": "answer"}
"""The published names of the fields in a prompt, and ours."""
DIGESTS = {
    NORMALIZE: "533ef5bacb93589fc3d2ff493954c5167384dfb15549665470660c182c2c1784",
    JUDGE: "ab6d1227e81b281ce383e8a7564b783241b6a8f81801b6b891704fed290168e8",
}
"""The SHA-256 of the published texts, with Q, T and A for question, true answer and answer."""
_MARKS = {"question": "Q", "true_answer": "T", "answer": "A"}


class AnswerRubric(Rubric[Prompt]):
    """`published` and `paper` make two calls, the second only if the first does not decide. `a2a` makes one.

    A row is not judged if its answer is wrong whatever the judge says.
    """

    labels = ("1", "0")
    rules = ("published", "paper", "a2a")
    rounds = 2
    retries = 5
    bundled = Prompt.read(_HERE / "judge.toml")

    def prompt(self, name: str) -> Prompt:
        """See `Rubric.prompt`. `name` is `bundled`, `a2a`, `published=DIR`, or a file with `judge` and `normalize`.

        Without the text `normalize` there is one call per row, as in `a2a`.
        """
        if name == BUNDLED:
            return self.bundled
        if name == A2A:
            return Prompt.read(_HERE / "judge_a2a.toml")
        checkout = checkout_of(name)
        if checkout is not None:
            return published_prompt(checkout)
        prompt = Prompt.read(Path(name))
        if JUDGE not in prompt.texts or not prompt.texts.keys() <= {JUDGE, NORMALIZE}:
            raise UserError(
                f"{name}: a judge prompt of this benchmark must have the text judge, may have normalize, and no other"
            )
        return prompt

    def queries(self, subject: Subject, prompt: Prompt, labels: Mapping[str, str]) -> Sequence[Query]:
        question: Question = subject.item.asked
        output: Output = subject.answer
        values = {"question": question.question, "answer": str(output.answer)}
        if NORMALIZE not in prompt.texts:
            settled = settle(output.answer, output.error, question.true_answer, "", "a2a")
            if settled is not None or of_twin(question, output) is not None:
                return ()
            return (Query(prompt.fill(JUDGE, **values, true_answer=question.true_answer), name=JUDGE),)
        if is_error(output.error) or OVER_CAP in str(output.answer):
            return ()
        first = Query(prompt.fill(NORMALIZE, **values), name=NORMALIZE, rule=NORMALIZE)
        if NORMALIZE not in labels:
            return (first,)
        true_answer = question.judged_answer
        settled = settle(output.answer, output.error, true_answer, labels[NORMALIZE])
        if settled is not None or of_twin(question, output, labels[NORMALIZE]) is not None:
            return (first,)
        return (first, Query(prompt.fill(JUDGE, **values, true_answer=true_answer), name=JUDGE))

    def read(self, reply: str, rule: str) -> str | None:
        if rule == NORMALIZE:
            return normalized(reply)
        label = read_judge(reply, rule_name(rule))
        return None if label is None else str(label)

    def cases(self, prompt: Prompt) -> Sequence[Case]:
        """See `Rubric.cases`. Returns the imported cases. Raises UserError if there are none."""
        return [
            Case(
                f"case{number}",
                f"rule {value['rule']}",
                Query(prompt.fill(JUDGE, **{name: str(value[name]) for name in _MARKS}), name=JUDGE),
                (str(value["correct"]),),
                str(value["answer"]),
            )
            for number, value in read_jsonl(imported(JUDGE_CASES), _case, expected="a judge case is expected")
        ]


def _case(value: Any) -> Mapping[str, Any]:
    from refsol.files import Fault, FaultsError

    missing = _CASE - (value.keys() if isinstance(value, dict) else set())
    if missing:
        raise FaultsError([Fault(f"does not contain {', '.join(sorted(missing))}")])
    case: Mapping[str, Any] = value
    return case


def has_cases(path: Path) -> bool:
    """Whether the first line of a .jsonl file of any name is a judge case."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    try:
        with path.open("rb") as lines:
            first = json.loads(lines.readline(_MAX_CASE))
    except ValueError:
        return False
    return isinstance(first, dict) and first.keys() >= _CASE


def check_cases(path: Path) -> int:
    """The number of judge cases in a file. Raises InputError, which lists all problems."""
    return len(read_jsonl(path, _case, expected="a judge case of FHIR-AgentBench is expected"))


def published_prompt(checkout: Path) -> Prompt:
    """The published texts, parsed from the evaluator's source without running it. Raises UserError."""
    path = checkout / "evaluation_metrics.py"
    try:
        tree = python_module(read_text(path, error=UserError))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not valid Python: {error}") from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    prompt = Prompt({name: "".join(_parts(functions.get(_FUNCTIONS[name]), path)) for name in (JUDGE, NORMALIZE)})
    for name, expected in DIGESTS.items():
        digest = hashlib.sha256(prompt.fill(name, **_MARKS).encode("utf-8")).hexdigest()
        if digest != expected:
            raise UserError(
                f"{path}: {_FUNCTIONS[name]}: the text is not the published one (its SHA-256 is {digest}); check out "
                "the published version"
            )
    return prompt


def _parts(function: ast.FunctionDef | None, path: Path) -> Iterator[str]:
    """The parts of a function's f-string, with our field names in braces."""
    text = next((node for node in ast.walk(function) if isinstance(node, ast.JoinedStr)), None) if function else None
    if text is None:
        raise UserError(
            f"{path}: contains no published judge prompt; name a checkout of FHIR-AgentBench: published=DIR"
        )
    for part in text.values:
        if isinstance(part, ast.Constant):
            yield str(part.value)
        elif isinstance(part, ast.FormattedValue):
            yield f"{{{_FIELDS.get(ast.unparse(part.value), '')}}}"
