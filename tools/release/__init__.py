"""`make release`: checks a release; publishes nothing."""
