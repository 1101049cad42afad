"""Runs code that a model wrote, behind a wall: bubblewrap around CPython, pydantic-monty, or docker.

The package knows nothing of FHIR or benchmarks. A caller chooses a sandbox (`choose`), opens it for a run, and for each
episode opens `Programs` with a `Surface` (what the code sees) and an async callable that serves the code's requests.
It fails closed: without a sandbox that passes its self-test nothing is executed.
"""
