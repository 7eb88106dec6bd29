"""Samples of the tiny model, and the probabilities that they should have."""
