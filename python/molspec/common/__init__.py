"""What all rings use: settings, tasks, tables, journals, workers and the console."""
