"""refsol grades: results plus facts in, verdicts with reasons out. Pure and offline; imports nothing of medagent."""
