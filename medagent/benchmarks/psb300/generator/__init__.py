"""Makes task sets of psb-300 from a seed: generates charts, sorts them by the rules' branches, words the tasks."""
