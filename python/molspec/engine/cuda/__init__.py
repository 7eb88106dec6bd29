"""The engine on a CUDA device, and searches whose rounds run there."""
