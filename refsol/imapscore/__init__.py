"""imapScore: what a doctor's answer and a model's answer inform of, compared value by value.

The metric of "imapScore: Medical Fact Evaluation Made Easy" (Findings of ACL 2024, 2024.findings-acl.610), without the
model: `imap` reads and writes the text form, `relations` and `graph` relate values, `score` is the paper's equation 1,
`votes` merges samples, `baselines`, `metrics` and `correlate` hold it against human scores, `records` reads the files.
"""
