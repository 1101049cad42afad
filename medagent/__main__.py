"""`python -m medagent` is the `medagent` command."""

from medagent.cli.app import main

if __name__ == "__main__":
    main()
