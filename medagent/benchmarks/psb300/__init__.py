"""psb-300 as a benchmark of the run engine: tasks, agents, grading and scores."""
