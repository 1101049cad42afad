"""The bundled agents of psb-300."""
