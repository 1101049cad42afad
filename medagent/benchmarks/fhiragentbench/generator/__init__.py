"""Makes questions about a synthetic hospital, with our own sentences, and writes them into folders."""
