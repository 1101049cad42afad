"""lm-evaluation-harness asks a task of its own over PromptCBLUE's lines; its samples file is graded."""

import os
import subprocess
import sys
from pathlib import Path

from mini import QUESTIONS, endpoint, same_table

Path("promptcblue_mini.yaml").write_text(
    f"""task: promptcblue_mini
dataset_path: json
dataset_kwargs:
  data_files: {{test: {QUESTIONS}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{input}}}}"
doc_to_target: "{{{{target}}}}"
generation_kwargs: {{until: [], max_gen_toks: 512}}
metric_list: [{{metric: exact_match}}]
""",
    encoding="utf-8",
)
cache = str(Path("cache").resolve())
with endpoint() as url:
    subprocess.run(
        [
            *(str(Path(sys.executable).with_name("lm_eval")), "--model", "local-chat-completions"),
            *("--model_args", f"model=mini,base_url={url}/chat/completions,num_concurrent=2,tokenizer_backend=None"),
            *("--include_path", ".", "--tasks", "promptcblue_mini", "--apply_chat_template"),
            *("--log_samples", "--output_path", "out"),
        ],
        check=True,
        env=os.environ | {"OPENAI_API_KEY": "k", "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": cache},
    )
    (samples,) = Path("out").rglob("samples_*.jsonl")
    print(same_table(url, samples))
