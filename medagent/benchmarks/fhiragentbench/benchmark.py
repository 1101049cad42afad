"""FHIR-AgentBench as a benchmark with FHIR sessions: questions about charts, with retrieval and answer graded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from medagent.benchmarks.fhiragentbench._agents import BundledAgent, check_readable
from medagent.benchmarks.fhiragentbench._grader import FhirQuestionGrader
from medagent.benchmarks.fhiragentbench._items import FhirQuestionItem, digest_of, filtered, question_items
from medagent.benchmarks.fhiragentbench._outputs import output_of
from medagent.benchmarks.fhiragentbench._patients import (
    check_credentialed,
    left_out_line,
    patients_file,
    without_their_ids,
)
from medagent.benchmarks.fhiragentbench._rubric import AnswerRubric, check_cases, has_cases
from medagent.benchmarks.fhiragentbench.sets import (
    JUDGE_CASES,
    QUESTIONS,
    SYNTHETIC,
    is_question_set,
    keep,
    manifest_of,
    questions_of,
)
from medagent.benchmarks.fhiragentbench.settings import (
    AGENTS,
    FhirAgentBenchSettings,
)
from medagent.benchmarks.fhiragentbench.strategies.prompts import bundled_prompt, checkout_of, published_prompt
from medagent.benchmarks.fhiragentbench.strategies.session import StrategyActing
from medagent.benchmarks.fhiragentbench.strategies.tokens import check_tokenizer
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.core.tell import Tell, untold
from medagent.engine.benchmark import Say
from medagent.engine.blocks import Block
from medagent.engine.data_sets import SetMaker, SetManifest, TwinSet
from medagent.engine.folder import Run
from medagent.engine.plan import Plan
from medagent.engine.report import BackgroundNote, DataRef, Report
from medagent.engine.scores import Grader, Judgement, Score, Scored, unit_name
from medagent.fhir_data.embedded import EhrFile
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episode import Acting, EhrChoice, EpisodeRow, Scripted
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.fhir_episodes.task import FhirItem
from medagent.fhir_episodes.tools import Toolbox
from medagent.judging.benchmark import JudgedBenchmark, judged_plan, judgements_of
from medagent.judging.judging import Judging
from medagent.judging.rubric import Subject
from refsol.fhiragentbench import KIND_WORDS, RULE_SETS, questions_text, read_questions
from refsol.files import json_object, read_json

_PROMPTS = Path(__file__).parent / "prompts"
_SOURCE = "source.json"
"""The file of a packed question with the options for grading."""


class FhirAgentBench(FhirBenchmark[FhirAgentBenchSettings], JudgedBenchmark[FhirAgentBenchSettings, EpisodeRow]):
    """Questions about a hospital's patients: an agent finds the resources that have the answer, and answers."""

    name = "fhir-agentbench"
    imports = "a question file (questions.csv) or the judge cases (judge_cases.jsonl) of FHIR-AgentBench"
    example = "medagent run fhir-agentbench --agent reference"
    Settings = FhirAgentBenchSettings
    rule_sets = tuple(RULE_SETS)
    agents = AGENTS
    tool_agents = AGENTS[1:]
    kept_out = ("medagent/benchmarks/fhiragentbench/data/",)
    rubric = AnswerRubric()
    kinds: ClassVar[Mapping[str, str]] = {str(kind): words for kind, words in KIND_WORDS.items()}

    def items(self, source: FhirAgentBenchSettings) -> Sequence[FhirQuestionItem]:
        return question_items(source)

    def data(self, source: FhirAgentBenchSettings) -> DataRef:
        manifest = manifest_of(source.dataset)
        note = "not the published questions: not comparable with published scores" if manifest else ""
        version = source.dataset if manifest is None else manifest.name
        digest = digest_of(questions_of(source.dataset))
        return DataRef(name="FHIR-AgentBench", version=version, digest=digest, note=note)

    def manifest(self, source: FhirAgentBenchSettings) -> SetManifest | None:
        return manifest_of(source.dataset)

    def patients(self, source: FhirAgentBenchSettings, say: Say) -> EhrFile:
        """See `FhirBenchmark.patients`. The patients of the published questions are not bundled."""
        return patients_file(source, say)

    def protocol(self, source: FhirAgentBenchSettings, kind: str) -> Protocol:
        """See `FhirBenchmark.protocol`. A strategy uses a system prompt; its first message is only the question."""
        strategy, checkout = source.strategy, checkout_of(source.prompt)
        functions = _PROMPTS / "functions.json"
        if checkout is not None and source.system is not None:
            raise UserError("--prompt published=DIR and --system both name the system prompt: leave one out")
        if strategy is not None and kind == strategy.name:
            words = load_protocol(kind, file=_PROMPTS / "strategy.toml", functions=functions)
            system = bundled_prompt(strategy) if checkout is None else published_prompt(strategy, checkout)
            return words.model_copy(update={"system": system, "functions": ()})
        if checkout is not None:
            raise UserError("--prompt published=DIR needs a published strategy: --protocol multi_turn_resource")
        return load_protocol(kind, file=_PROMPTS / f"{kind}.toml", functions=functions)

    def pack(self, source: FhirAgentBenchSettings, item: Any) -> Mapping[str, bytes]:
        """See `FhirBenchmark.pack`. The files have the question, then its twin, and the options for grading."""
        question = _question(item)
        twins = []
        if question.twin:
            pair = [twin for twin in questions_of(source.dataset) if twin.twin == question.twin]
            twins = [twin for twin in pair if twin.id != question.id]
        options = {"rule_set": source.rule_set, "found": source.found_in_effect}
        return {QUESTIONS: questions_text([question, *twins]).encode(), _SOURCE: json.dumps(options).encode()}

    def unpack(self, folder: Path) -> tuple[FhirItem, Grader[EpisodeRow]]:
        options = read_json(folder / _SOURCE, json_object, expected="a packed question is expected", error=UserError)
        source = checked(FhirAgentBenchSettings, {**options, "dataset": str(folder / QUESTIONS)})
        return self.items(source)[0], FhirQuestionGrader(source)

    def grader(self, source: FhirAgentBenchSettings, rules: str) -> Grader[EpisodeRow]:
        """See `Benchmark.grader`. The source says which rule set to use."""
        return FhirQuestionGrader(source)

    def names_data(self, dataset: str) -> bool:
        return dataset.endswith(".csv") or is_question_set(Path(dataset))

    def generator(self) -> SetMaker:
        from medagent.benchmarks.fhiragentbench.generator.write import QuestionGenerator

        return QuestionGenerator()

    def new_twins(
        self, dataset: str, ehr: Path | None, folder: Path, *, triples: bool = False, tell: Tell = untold
    ) -> TwinSet:
        from medagent.benchmarks.fhiragentbench.generator.twins import write

        source = checked(FhirAgentBenchSettings, {"dataset": dataset or SYNTHETIC, "ehr": ehr})
        return write(source, folder, triples=triples, tell=tell)

    def source(self, run: Run, overrides: Mapping[str, Any]) -> FhirAgentBenchSettings:
        """See `Benchmark.source`. Patients that an option names replace the run's FHIR server."""
        source: FhirAgentBenchSettings = super().source(
            run, {**({"fhir": None} if "ehr" in overrides else {}), **overrides}
        )
        return source

    def scripted(self, settings: FhirAgentBenchSettings, items: Sequence[FhirItem]) -> Scripted | None:
        if settings.agent not in AGENTS or settings.agent == "text":
            return None
        if settings.agent == "reference":
            check_readable(items)
        toolbox = Toolbox.of(self.protocol(settings, "tools"), settings.api_base)
        return BundledAgent.of(settings.agent, items, toolbox, self.now(settings), code=settings.protocol == "code")

    def acting(self, settings: FhirAgentBenchSettings) -> Acting | None:
        if settings.agent == "fetch-all":
            return StrategyActing()
        if settings.strategy is None:
            return None
        if settings.cap is not None:
            check_tokenizer()
        return StrategyActing(settings.strategy, settings.cap, settings.code_returns)

    def left_out(
        self, settings: FhirAgentBenchSettings, items: Sequence[FhirItem], ehr: EhrChoice, say: Say
    ) -> Sequence[str]:
        """See `FhirBenchmark.left_out`. The patients of a FHIR server cannot be checked before a run."""
        if ehr.file is None:
            return ()
        if settings.model is not None or settings.judge or (settings.agent and settings.agent not in AGENTS):
            check_credentialed(ehr.file, settings.yes, say)
        return without_their_ids([_question(item) for item in items], ehr.file, say)

    def selected(self, settings: FhirAgentBenchSettings, items: Sequence[FhirItem]) -> Sequence[FhirItem]:
        return super().selected(
            settings, filtered(settings, [item for item in items if isinstance(item, FhirQuestionItem)])
        )

    async def plan(self, settings: FhirAgentBenchSettings, say: Say) -> Plan:
        """See `Benchmark.plan`. If judges are named, every answer is judged."""
        plan = await super().plan(settings, say)
        plan = _with_note(plan)
        if not settings.judge:
            return plan
        return judged_plan(
            plan, self, settings.panel(self.rubric, settings), model=str(settings.model or settings.agent)
        )

    def subjects(self, run: Run) -> Iterator[Subject]:
        """See `JudgedBenchmark.subjects`. Rows without an answer are judged too, as in the published evaluator."""
        source = self.source(run, {})
        items = {item.id: item for item in self.items(source)}
        for row in run.rows(self.row):
            name = unit_name(row.unit, items)
            if name is not None and not row.owed:
                yield Subject(row.unit, items[name.item], output_of(row, source))

    def judged(self, run: Run) -> Mapping[str, Judgement] | None:
        """See `Benchmark.judged`. None without a panel."""
        return judgements_of(run, self) if Judging(run.path, self.rubric).panels() else None

    def notes(self, run: Run) -> Iterator[str]:
        """See `Benchmark.notes`. The note says which judge prompt was used."""
        for panel in Judging(run.path, self.rubric).panels()[-1:]:
            is_own_prompt = panel.prompt.digest in {self.rubric.prompt(name).digest for name in ("bundled", "a2a")}
            name = "own judge prompt" if is_own_prompt else "judge prompt"
            yield BackgroundNote(f"{name}: sha256 {panel.prompt.digest}")

    def import_data(self, path: Path) -> str | None:
        """See `Benchmark.import_data`. `path` is a question file (.csv) or a file of judge cases."""
        if path.suffix == ".csv":
            questions = read_questions(path)
            target = keep(path, QUESTIONS)
            return (
                f"{target}: {len(questions):,} questions of FHIR-AgentBench imported. Run them: medagent run "
                f"{self.name} --dataset published --ehr mimic.sqlite"
            )
        if path.name == JUDGE_CASES or has_cases(path):
            count = check_cases(path)
            target = keep(path, JUDGE_CASES)
            return f"{target}: {count} judge cases imported. Ask them: medagent judge check {self.name} --judge NAME"
        return None

    def graded_file(self, path: Path, options: Mapping[str, Any]) -> Report:
        """See `Benchmark.graded_file`. `path` is a published output file."""
        from medagent.benchmarks.fhiragentbench._output_file import graded_file

        return graded_file(self, path, options)

    def export_official(self, run: Run, scores: Sequence[Scored], out: Path) -> Sequence[Path]:
        """See `Benchmark.export_official`: one output file per trial."""
        from medagent.benchmarks.fhiragentbench._output_file import export_outputs

        return export_outputs(run, self.source(run, {}), scores, out)

    def blocks(self, item: Any, row: EpisodeRow, score: Score | None) -> Sequence[Block]:
        from medagent.benchmarks.fhiragentbench._details import question_blocks

        return list(question_blocks(item, row, score)) if isinstance(item, FhirQuestionItem) else []


def _question(item: FhirItem) -> Any:
    assert isinstance(item, FhirQuestionItem)
    return item.asked


def _with_note(plan: Plan) -> Plan:
    """Add a note to a plan's data about the questions that were left out."""
    from dataclasses import replace

    notes = (plan.data.note, left_out_line(plan.data.left_out, len(plan.items)))
    return replace(plan, data=plan.data.model_copy(update={"note": "; ".join(filter(None, notes))}))
