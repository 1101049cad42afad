"""Where people already run agents: each module is what one other tool asks for, on top of the public API."""
