"""Models: their sizes and conventions, and a PyTorch twin for training and comparison."""
