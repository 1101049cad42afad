"""The agents that come with MedAgentBench: tool calling, the reference, the baselines, replay."""
