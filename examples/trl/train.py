"""GRPO on MedAgentBench with TRL, on a CPU, until the mean reward reaches a bound. Nothing is downloaded.

    pip install ../.. "trl==1.16.*"
    python train.py

The model is made here, with random weights, so it would never call a tool. First it learns 16 episodes by heart: four
tasks with four answers each, of which one is right. Then GRPO learns from the rewards which answer belongs to which
task. If the mean reward does not reach the bound, the program ends with an error. To train a real model, leave the
lessons out and pass `model="Qwen/Qwen3-0.6B"`.
"""

from __future__ import annotations

import sys
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen3Config, Qwen3ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from medagent.rl import Environment

BOUND, LAST, MAX_STEPS = 0.9, 5, 200
"""Training ends when the mean reward of the last 5 steps is at least 0.9. After 200 steps it has failed."""
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
ANSWERS: dict[int, list[Any]] = {9: [], 15: [-1], 40: ["Patient not found"], 61: [60]}
"""The right answer to each of four training tasks. A rollout of an untaught model picks one of the four."""
PER_TASK = 8
"""Rollouts of each task in a step."""


class Ward:
    """A training environment with two tools of its own over `medagent.rl.Environment`, so that prompts are short."""

    def __init__(self) -> None:
        self._environment = Environment(split="train", seed="1")

    def reset(self, task: int, **_: Any) -> str:
        """Begin an episode; `task` is a column of the training set."""
        return self._environment.reset(task=task)

    def get_reward(self) -> float:
        """The official verdict, 1.0 or 0.0."""
        return self._environment.get_reward()

    def count_patients(self, family: str) -> str:
        """Counts patients.

        Args:
            family: Family name.

        Returns:
            The line of the record's reply with the count.
        """
        reply = self._environment.get_patient(family=family)
        return next((line.strip() for line in reply.splitlines() if '"total"' in line), reply)

    def finish(self, answers: list) -> str:
        """Ends the work with the answers.

        Args:
            answers: The answers; empty if there are none.

        Returns:
            That the episode has ended.
        """
        return self._environment.finish(answers=answers)


TOOLS = [Ward.count_patients, Ward.finish]
"""In TRL's order."""


def conversation(task: int, answers: list[Any]) -> list[dict[str, Any]]:
    """An episode: the first message, a search that matches nobody, and an answer."""
    episode = Ward()
    messages: list[dict[str, Any]] = [{"role": "user", "content": episode.reset(task=task)}]
    for name, arguments in (("count_patients", {"family": "Nobody"}), ("finish", {"answers": answers})):
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
    """A model of two layers with random weights."""
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


def teach(model: Qwen3ForCausalLM, texts: list[torch.Tensor], begin: int, rounds: int = 30) -> float:
    """Learn by heart how texts go on after the token `begin` has come twice; returns the last loss."""
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


class UntilBound(TrainerCallback):
    """Prints each step, and ends the training when the mean reward of the last steps reaches the bound."""

    def __init__(self) -> None:
        self.rewards: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        """See TrainerCallback; the last log of a training has no reward."""
        if "reward" not in logs:
            return
        self.rewards.append(logs["reward"])
        calls, failed = logs["tools/call_frequency"], logs["tools/failure_frequency"]
        print(f"step {state.global_step}: reward {logs['reward']:.3f}, calls {calls:.2f}, failed {failed:.2f}")
        control.should_training_stop = len(self.rewards) >= LAST and self.mean >= BOUND

    @property
    def mean(self) -> float:
        """The mean reward of the last steps."""
        return fmean(self.rewards[-LAST:])


def main() -> None:
    """Make the model, teach it the episodes, and train it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # sums of floats depend on the number of threads
    lessons = [conversation(task, answers) for task in ANSWERS for answers in ANSWERS.values()]
    texts = [made_tokenizer([]).apply_chat_template(lesson, tools=TOOLS, tokenize=False) for lesson in lessons]
    tokenizer = made_tokenizer(texts)
    model = made_model(tokenizer)
    taught = [torch.tensor([tokenizer(text).input_ids]) for text in texts]
    print(f"{model.num_parameters():,} parameters, {len(tokenizer):,} tokens, episodes of {taught[0].shape[1]:,}")
    print(f"loss of the last lesson: {teach(model, taught, tokenizer.convert_tokens_to_ids('<|im_start|>')):.3f}")

    progress = UntilBound()
    rows = {"prompt": [[{"role": "user", "content": ""}]] * len(ANSWERS), "task": list(ANSWERS)}
    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        environment_factory=Ward,
        train_dataset=Dataset.from_dict(rows),
        callbacks=[progress],
        args=GRPOConfig(
            output_dir="trl-output",
            seed=0,
            learning_rate=1e-3,
            lr_scheduler_type="constant",
            max_steps=MAX_STEPS,
            per_device_train_batch_size=PER_TASK * len(ANSWERS),
            num_generations=PER_TASK,
            max_completion_length=160,
            max_tool_calling_iterations=4,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    first, steps = fmean(progress.rewards[:LAST]), len(progress.rewards)
    if progress.mean < BOUND:
        sys.exit(f"mean reward {progress.mean:.3f} of the last {LAST} of {steps} steps: the bound is {BOUND}")
    print(f"mean reward of {LAST} steps: {first:.3f} at first, {progress.mean:.3f} after {steps} steps")


if __name__ == "__main__":
    main()
