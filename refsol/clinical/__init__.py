"""Clinical task types. A type is a text and one function, `rule(chart)`; everything else follows from it.

The chart records what the rule reads and compares. From this record and the rule's `Ruling` follow the verdict with its
checks and reasons, the data that an agent must read, the reference agent, the scores of agents that read nothing, and
the sampling of task sets. docs/clinical.md shows how to write a type.
"""
