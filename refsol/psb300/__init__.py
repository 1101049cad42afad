"""psb-300: the published verdict on every item, with the reason. Pure and offline; rules in docs/psb-300.md."""
