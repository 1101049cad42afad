"""FHIRPath (HL7 FHIRPath 2.0 over FHIR R4 in JSON), as far as R4's own invariants use it and
search parameters are likely to.

`parser` makes a tree of an expression, `evaluator` walks it over nodes, `functions` holds what is called by name.
"""
