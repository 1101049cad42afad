"""The five published strategies: what each lets a model do, the tools with their published schemas, and the cap."""
