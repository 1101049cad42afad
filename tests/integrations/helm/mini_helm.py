"""PromptCBLUE's mini set as a scenario of HELM, and the run that asks it as it stands."""

from typing import ClassVar

from helm.benchmark.adaptation.adapter_spec import AdapterSpec
from helm.benchmark.metrics.common_metric_specs import get_exact_match_metric_specs
from helm.benchmark.run_spec import RunSpec, run_spec_function
from helm.benchmark.scenarios.scenario import (
    CORRECT_TAG,
    TEST_SPLIT,
    Input,
    Instance,
    Output,
    Reference,
    Scenario,
    ScenarioSpec,
)
from mini import rows


class Mini(Scenario):
    """One instance for each line."""

    name = "promptcblue_mini"
    description = "Two lines of each of PromptCBLUE's tasks."
    tags: ClassVar[list[str]] = []

    def get_instances(self, output_path: str) -> list[Instance]:
        """The lines, with the target as the one right reference."""
        return [
            Instance(
                Input(text=row["input"]), [Reference(Output(text=row["target"]), tags=[CORRECT_TAG])], split=TEST_SPLIT
            )
            for row in rows()
        ]


@run_spec_function("promptcblue_mini")
def run_spec() -> RunSpec:
    """The question alone, without examples."""
    adapter = AdapterSpec(
        method="generation",
        input_prefix="",
        input_suffix="",
        output_prefix="",
        max_train_instances=0,
        max_eval_instances=100,
        max_tokens=512,
        num_outputs=1,
        stop_sequences=[],
    )
    return RunSpec(
        name="promptcblue_mini",
        scenario_spec=ScenarioSpec(class_name="mini_helm.Mini"),
        adapter_spec=adapter,
        metric_specs=get_exact_match_metric_specs(),
        groups=["promptcblue_mini"],
    )
