"""The engine on a CUDA device, and searches whose rounds stay there."""
