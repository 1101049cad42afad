"""HELM asks PromptCBLUE's lines in a run of its own; its folder is graded, as it was run and as it was summarised."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from mini import endpoint, same_table

DEPLOYMENT = """model_deployments:
  - name: local/mini
    model_name: local/mini
    tokenizer_name: local/words
    max_sequence_length: 4096
    client_spec:
      class_name: helm.clients.openai_client.OpenAIClient
      args: {{base_url: "{url}", api_key: k}}
"""
MODEL = """models:
  - name: local/mini
    display_name: mini
    description: the endpoint of the checks
    creator_organization_name: local
    access: open
    release_date: 2026-01-01
    tags: [TEXT_MODEL_TAG, FULL_FUNCTIONALITY_TEXT_MODEL_TAG]
"""
TOKENIZER = """tokenizer_configs:
  - name: local/words
    tokenizer_spec: {class_name: helm.tokenizers.simple_tokenizer.SimpleTokenizer}
    end_of_text_token: "</s>"
    prefix_token: ""
"""


def command(name: str, *arguments: str) -> None:
    """Run one of HELM's commands."""
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ["PYTHONPATH"]])
    program = str(Path(sys.executable).with_name(name))
    subprocess.run([program, *arguments], check=True, env=os.environ | {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"})


with endpoint() as url:
    settings = Path("prod_env")
    settings.mkdir()
    for name, text in (
        ("model_deployments.yaml", DEPLOYMENT.format(url=url)),
        ("model_metadata.yaml", MODEL),
        ("tokenizer_configs.yaml", TOKENIZER),
    ):
        (settings / name).write_text(text, encoding="utf-8")
    command(
        "helm-run",
        *("--run-entries", "promptcblue_mini:model=local/mini", "--suite", "s", "--local-path", "prod_env"),
        *("--max-eval-instances", "100", "--plugins", "mini_helm"),
    )
    (state,) = Path("benchmark_output").rglob("scenario_state.json")
    result = same_table(url, state.parent)
    command("helm-summarize", "--suite", "s", "--local-path", "prod_env")
    shown = shutil.copytree(state.parent, "shown", ignore=shutil.ignore_patterns("scenario_state.json"))
    assert same_table(url, shown) == result
print(f"{result}, as HELM ran them and as it summarised them")
