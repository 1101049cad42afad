"""TRL's example trains until the mean reward reaches its bound. It fails if there are too few steps for that.

It takes about ten minutes of CPU time on one core, and 6 GB of disk for torch.
"""

import importlib.util
import io
from contextlib import redirect_stdout
from pathlib import Path
from statistics import fmean

EXAMPLE = Path(__file__).parents[3] / "examples" / "trl" / "train.py"
spec = importlib.util.spec_from_file_location("train", EXAMPLE)
assert spec
assert spec.loader
train = importlib.util.module_from_spec(spec)
spec.loader.exec_module(train)


def run(steps: int) -> tuple[list[float], str]:
    """The reward of each step, and the error that ended the training."""
    train.MAX_STEPS, error, printed = steps, "", io.StringIO()
    try:
        with redirect_stdout(printed):
            train.main()
    except SystemExit as ended:
        error = str(ended.code)
    lines = printed.getvalue().splitlines()
    return [float(line.split("reward ")[1].split(",")[0]) for line in lines if line.startswith("step ")], error


short, error = run(2)
assert "the bound is 0.9" in error, error
rewards, error = run(200)
assert not error, error
assert rewards[:2] == short, "another start with the same seed"
first, last = fmean(rewards[:5]), fmean(rewards[-5:])
assert first < 0.5 < 0.9 <= last, (first, last)
print(f"mean reward of 5 steps {first:.2f} at first, {last:.2f} after {len(rewards)} steps; too few steps are an error")
