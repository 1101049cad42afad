"""The benchmarks that come along: four of a kind, each whole in its own room."""
