"""Sessions on models of PyTorch that are no engine of ours: the token tree as rows of a call."""
