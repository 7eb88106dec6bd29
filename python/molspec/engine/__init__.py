"""Running a model: packed weights, caches of keys and values, and the token tree over them."""
