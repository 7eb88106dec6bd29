"""What a model is: its sizes and conventions, and a PyTorch twin to train and to compare with."""
