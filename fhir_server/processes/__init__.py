"""A server on a port, in one or more processes.

`helper` runs long requests in a second process, so that other requests do not wait. `workers` answers reads in several
processes.
"""
