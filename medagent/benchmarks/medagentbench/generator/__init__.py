"""Makes task sets from a seed, for `medagent data new`.

seed → constants (`_shift`) → profile (`_profile`) → hospital (`fhir_server.synthetic`)
     → charts (`_charts`) and their branches, by refsol's rules → tasks (`_sampling`), texts (`_phrases`) → files
    (`write`)
"""
