"""FHIRPath over FHIR R4 in JSON, as HAPI FHIR 7.6.0 evaluates it (observed in its engine for R4).

`parser` turns an expression into a tree, `evaluator` compiles the tree to functions over nodes, `functions` contains
FHIRPath's functions. Expressions of clients have a `budget`. `dialect` knows where HAPI reads one otherwise.
"""
