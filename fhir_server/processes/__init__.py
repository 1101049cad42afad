"""A server on a port, with a helper process for long requests, so that other requests do not wait."""
