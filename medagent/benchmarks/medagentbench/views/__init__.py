"""The parts of an HTML report for MedAgentBench: the deciding test over time, due and placed orders, and blocks."""
