"""Your own PyTorch models: decode with them unchanged, or compile them."""
