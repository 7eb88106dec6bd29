"""Engines, which run a model: packed weights, and key-value caches for token trees."""
