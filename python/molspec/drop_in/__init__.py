"""Models that somebody has already: decode with them as they are, or compile them."""
