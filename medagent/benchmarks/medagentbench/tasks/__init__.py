"""Tasks and data sets of MedAgentBench: the bundled one, the imported official one, and users' own task files."""
