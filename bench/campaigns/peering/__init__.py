"""The engines that molspec is compared with: each runs the same weights in its own process."""
