"""A model over a PromptCBLUE test file, on the run engine; `refsol.promptcblue` parses and scores what it says."""
