"""Import of many resources at once."""
