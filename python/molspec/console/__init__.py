"""The console output of commands: results, progress, and errors in one line."""
