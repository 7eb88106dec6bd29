"""`python -m molspec`: the command line where its script is not on the path."""

from molspec.commands.cli import main

main()
