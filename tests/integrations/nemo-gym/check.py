"""NeMo Gym accepts a configuration of its `harbor_agent` that names an exported folder, and requests for its tasks.

The agent is not run: that of 0.4.0 imports names of an older Harbor (0.1.42 installs with it), which ignores the health
check, the users and the separate verifier of our folders.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from pydantic import ValidationError
from responses_api_agents.harbor_agent.app import HarborAgentConfig, HarborRunRequest

GYM = str(Path(sys.executable).with_name("gym"))
CONFIG = """medagent:
  responses_api_agents:
    harbor_agent:
      entrypoint: app.py
      domain: agent
      concurrency: 2
      harbor_agent_name: oracle
      harbor_environment_type: docker
      harbor_datasets:
        medagent:
          local_dataset_path: tasks
      harbor_jobs_dir: jobs
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
        - name: example
          type: example
          jsonl_fpath: requests.jsonl
"""


def accepts(config: str, *words: str) -> bool:
    """Whether a command of `gym` accepts a configuration."""
    Path("config.yaml").write_text(config, encoding="utf-8")
    command = [GYM, *words, "--config", "config.yaml", "--model-type", "openai_model"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    return done.returncode == 0


def parses(model: type, fields: dict[str, object]) -> bool:
    """Whether a model of the agent accepts these fields."""
    try:
        model(**fields)
    except ValidationError as error:
        print(error)
        return False
    return True


subprocess.run([os.environ["MEDAGENT"], "export", "harbor", "tasks", "--limit", "5"], check=True)
names = sorted(path.parent.name for path in Path("tasks").glob("*/task.toml"))
requests = [{"instance_id": f"medagent::{name}", "responses_create_params": {"input": []}} for name in names]
Path("requests.jsonl").write_text("".join(f"{json.dumps(request)}\n" for request in requests), encoding="utf-8")

model = ("--model", "x", "--model-url", "http://127.0.0.1:9/v1", "--model-api-key", "k")
assert accepts(CONFIG, "env", "validate", *model)
assert not accepts(CONFIG.replace("name: policy_model", "name: nobody"), "env", "validate", *model)
collate = ("dataset", "collate", "--mode", "example_validation", "--output-dir")
assert accepts(CONFIG, *collate, "collated")
assert json.loads(Path("collated/example_metrics.json").read_bytes())["Number of examples"] == len(names) == 5
assert not accepts(CONFIG.replace("requests.jsonl", "none.jsonl"), *collate, "none")

[agent] = yaml.safe_load(CONFIG)["medagent"]["responses_api_agents"].values()
agent |= {"name": "medagent", "host": "127.0.0.1", "port": 1}
assert parses(HarborAgentConfig, agent)
assert not parses(HarborAgentConfig, {name: value for name, value in agent.items() if name != "harbor_datasets"})
assert all(parses(HarborRunRequest, request) for request in requests)
assert not parses(HarborRunRequest, {"responses_create_params": {"input": []}})
print(
    f"env validate, dataset collate and harbor_agent's models accept {len(names)} tasks and refuse wrong ones; not run"
)
