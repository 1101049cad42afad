#!/bin/bash
# Repeats the reference agent's actions.
exec python3 "$(dirname "$0")/solve.py"
