"""The engines that molspec is compared with: each converts the same weights and runs alone."""
