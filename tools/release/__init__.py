"""`make release`: what a release needs, checked; nothing is published."""
