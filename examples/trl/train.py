"""Two steps of GRPO on MedAgentBench with TRL, on a CPU. It makes a tiny model, so that nothing is downloaded.

    pip install medagent "trl==1.16.*"
    python train.py

The model has random weights, so it would never call a tool. It therefore first learns four episodes by heart: a search,
and an answer that is right for one of two tasks. To train a real model, omit that step and pass
`model="Qwen/Qwen3-0.6B"` to the trainer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from medagent.rl import Environment

TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
ANSWERS = (-1, 60)
TASKS = [16, 25]
"""Tasks for which one of the two ANSWERS is right, so that rewards differ within a group."""
environment = partial(Environment, split="train", seed="1", reward="checks")


def conversation(task: int, answer: int) -> list[dict[str, Any]]:
    """An episode: the first message, a search without a match, and an answer."""
    episode = environment()
    prompt = episode.reset(task=task)
    calls: dict[str, dict[str, Any]] = {"get_patient": {"family": "Nobody"}, "finish": {"answers": [answer]}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    for name, arguments in calls.items():
        call = {"type": "function", "function": {"name": name, "arguments": arguments}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "name": name, "content": getattr(episode, name)(**arguments)})
    return [*messages, {"role": "assistant", "content": "Done."}]


def made_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer trained on some texts, with Qwen3's chat template."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=2000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    inner.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        chat_template=qwen3_chat_template,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    return tokenizer


def made_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A model with about 144,000 random weights."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def teach(model: Qwen3ForCausalLM, texts: list[torch.Tensor], begin: int, rounds: int = 40) -> float:
    """Train the model to repeat each text after its second `begin` token; return the last loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    loss = torch.tensor(0.0)
    for _ in range(rounds):
        for ids in texts:
            shown = (ids == begin).cumsum(dim=1) <= 2
            loss = model(input_ids=ids, labels=ids.masked_fill(shown, -100)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


def main() -> None:
    """Make the model, teach it the episodes, and train it."""
    torch.manual_seed(0)
    tools = [getattr(Environment, name) for name in sorted(tool.name for tool in Environment.tools)]  # in TRL's order
    template = made_tokenizer([])
    episodes = [conversation(task, answer) for task in TASKS for answer in ANSWERS]
    texts = [template.apply_chat_template(episode, tools=tools, tokenize=False) for episode in episodes]
    tokenizer = made_tokenizer(texts)
    model = made_model(tokenizer)
    begin = tokenizer.convert_tokens_to_ids("<|im_start|>")
    taught = [torch.tensor([tokenizer(text).input_ids]) for text in texts]
    print(f"{model.num_parameters():,} parameters, {len(tokenizer):,} tokens, episodes of {taught[0].shape[1]:,}")
    print(f"loss on the four learned episodes: {teach(model, taught, begin):.3f}")

    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        environment_factory=environment,
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": ""}]] * len(TASKS), "task": TASKS}),
        args=GRPOConfig(
            output_dir="trl-output",
            max_steps=2,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=1024,
            max_tool_calling_iterations=4,
            temperature=0.7,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
        ),
    )
    trainer.train()
    shown = (
        "reward",
        "reward_std",
        "tools/call_frequency",
        "tools/failure_frequency",
        "completions/mean_length",
        "grad_norm",
    )
    for step in trainer.state.log_history[: trainer.state.global_step]:
        print(", ".join(f"{name} {float(step[name]):.2f}" for name in shown))


if __name__ == "__main__":
    main()
