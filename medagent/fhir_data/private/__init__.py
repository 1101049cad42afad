"""A private layer of writes over a hospital's own FHIR server: reads go to the server, writes stay in this process.

`hospital` is all that is sent; `layer` contains the written resources in an engine of our own; `writes` finds what a
write needs of the hospital; `search` merges the two; `session` is the episode's view. What cannot be merged faithfully
gets status 501 with the reason.
"""
