"""Results files: writing, validating, and finding the task set and facts by which to grade them."""
