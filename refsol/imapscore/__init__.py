"""imapScore compares the facts in a model's answer with those in a doctor's answer, value by value.

This is the metric of "imapScore: Medical Fact Evaluation Made Easy" (Findings of ACL 2024, 2024.findings-acl.610)
without the model: `imap` reads and writes the text format, `relations` and `graph` relate values, `score` is the
paper's equation 1, `votes` merges samples, `baselines`, `metrics` and `correlate` compare it with human scores, and
`records` reads the files.
"""
