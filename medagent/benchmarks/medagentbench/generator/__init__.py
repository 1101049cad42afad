"""Task sets from a seed: `medagent data new`.

seed → constants (`shift`) → profile → the hospital (`fhir_server.synthetic`)
     → charts and the branches the rules put them in → tasks dealt (`deal`), worded (`phrases`) → files (`write`)
"""
