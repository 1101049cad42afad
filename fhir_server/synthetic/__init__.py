"""The made-up hospital: FHIR R4 resources of a hundred patients, from a seed, the same bytes everywhere.

plan (diagnoses, and how the key tests end) → chart (measurements over time) → render (lines of JSON).
"""

from fhir_server.synthetic.generate import SEED, generate

DIGEST = "b2755e4fb320ffe41e3a094baa4228d3839fed0fa72f9db920d452e88c18923f"
"""SHA-256 of the lines for `SEED`, each with its newline: names the hospital in caches and run settings."""

__all__ = ["DIGEST", "SEED", "generate"]
