"""The made-up hospital: FHIR R4 resources of a hundred patients, from a seed, the same bytes everywhere.

plan (who is ill with what, and how the key tests end) → chart (readings over time) → render (lines of JSON).
"""

from fhir_server.hospital.generate import SEED, generate

__all__ = ["SEED", "generate"]
