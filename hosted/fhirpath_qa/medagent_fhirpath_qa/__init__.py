"""FHIRPath-QA as a benchmark: questions about a patient of the MIMIC-IV demo, with exact answers."""
