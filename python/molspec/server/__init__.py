"""Serves models over HTTP: requests of many users in one running batch, and a page to draw in."""
