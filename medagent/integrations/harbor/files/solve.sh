#!/bin/bash
# Does what the reference agent does.
exec python3 "$(dirname "$0")/solve.py"
