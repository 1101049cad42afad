"""FHIRPath 2.0 over FHIR R4 in JSON: the part that R4's invariants use and that search parameters are likely to use.

`parser` turns an expression into a tree, `evaluator` evaluates the tree over nodes, `functions` contains the functions.
"""
