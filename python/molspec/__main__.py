"""`python -m molspec`: the command line, if its script is not on the path."""

from molspec.commands.cli import main

main()
