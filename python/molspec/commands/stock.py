"""The command `stock`."""

from pathlib import Path

from molspec.commands.command import argument, command
from molspec.common import console, fields


@command
def stock_command(
    files: list[Path] = argument("Files of reactions with atom maps: tables or lines."),
    least: int = fields.setting(3, "Different products that a molecule gives atoms to, at least."),
    most_atoms: int = fields.setting(20, "Heavy atoms of a molecule, at most."),
    exclude: list[Path] | None = fields.setting(None, "Leave out the molecules of this file."),
    always: int = fields.setting(100, "Leave out none that gives atoms to so many products."),
) -> None:
    """Print what reactions begin with, as a stock for plan."""
    from molspec.planners.starting import is_small, starting_molecules
    from molspec.planners.stock import Stock, read_stock
    from molspec.training.reactions import read_rows

    left_out = read_stock(exclude) if exclude else Stock()
    rows = (row for path in files for row in read_rows(path))
    counts = starting_molecules(console.counted(rows, "reactions"))
    console.print_out("smiles\tname")
    for smiles, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        is_left_out = count < always and smiles in left_out
        if count >= least and not is_left_out and is_small(smiles, most_atoms):
            console.print_out(f"{smiles}\tin {count} product{'s' * (count > 1)}")
