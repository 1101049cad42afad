"""imapScore in medagent: the extraction by a model on the run engine, and how scores are shown."""
