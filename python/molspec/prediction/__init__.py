"""Prediction: queries in text to ranked answers, by one decoder for many requests."""
