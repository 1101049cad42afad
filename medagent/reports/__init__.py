"""Results as people read them: tables first, pictures where a picture says more."""
