"""Agents that come with psb-300."""
