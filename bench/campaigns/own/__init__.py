"""Costs and savings of the drafters in a model's checkpoint."""
