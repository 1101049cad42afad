"""Adapters to where people already run agents. Each stands on the one-call episode, and needs an extra of its own."""
