"""The engine on the CPU."""
