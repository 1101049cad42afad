"""The bundled benchmarks, each in its own folder, and the code that finds them."""
