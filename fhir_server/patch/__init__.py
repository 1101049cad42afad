"""Patches of a resource: JSON Patch and FHIRPath Patch."""
