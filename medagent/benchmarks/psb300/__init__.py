"""psb-300 on the run engine: its tasks, agents, grading and figures."""
