"""Task types of a user's own file as a benchmark: items, agents, grading, scores, and sets made from a seed."""
