"""How commands speak: results, progress, and errors in a line."""
