"""Torch's random numbers, which belong to the program that uses molspec."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def kept_random_numbers() -> Iterator[None]:
    """Leave the states of torch's generators, of the CPU and of CUDA, as they were."""
    is_used, seed = torch.cuda.is_initialized(), torch.initial_seed()
    with torch.random.fork_rng(range(torch.cuda.device_count()) if is_used else ()):
        try:
            yield
        finally:
            if not is_used and (torch.cuda.is_initialized() or torch.initial_seed() != seed):
                torch.cuda.manual_seed_all(seed)  # which its generators had, and had not used
