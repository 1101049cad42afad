"""Acceptance checks of the integrations by the other tools themselves, each in an environment of its own."""
