"""Packs a run into one archive, and checks such archives: `medagent submit pack`, `medagent submit check`."""
