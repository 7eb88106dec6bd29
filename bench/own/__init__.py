"""Drafters that a model's checkpoint carries: what they take and save."""
