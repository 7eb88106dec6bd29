"""The hook by which PyInstaller finds what molspec loads by path."""

from pathlib import Path


def folders() -> list[str]:
    """The folders of hooks, for the entry point."""
    return [str(Path(__file__).parent)]
