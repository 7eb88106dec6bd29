"""Sessions on PyTorch models of other projects: the token tree as rows of a call."""
