"""What all benchmarks of clinical task types share: sets, grader, metrics, sampling, twins, injection, packs."""
