"""MedAgentBench on the run engine: configuration, episodes, the results file, the table at the end."""
