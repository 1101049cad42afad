"""Task sets of psb-300 from a seed: a hospital's charts, the branches the rules put them in, tasks dealt and worded."""
