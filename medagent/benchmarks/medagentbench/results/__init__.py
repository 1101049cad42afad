"""The results file: written, validated, and put together with the facts it is graded by."""
