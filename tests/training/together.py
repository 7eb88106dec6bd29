"""One of the processes that torchrun starts for test_several_processes.py.

Arguments: a folder of prepared data, the folder to write to, and the trainings as JSON of {name:
fields of TrainConfig}. At the first attempt, process 0 kills itself in the training "killed". Then,
at the second, the command line trains too; its last command has a mistake.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import torch

from molspec.commands import cli
from molspec.training import TrainConfig, train
from molspec.training.trainer import ModelTrainer

#: The step in which process 0 is killed.
LAST_STEP = 11


def main(data: str, output: str, trainings: str) -> None:
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    trainers: list[ModelTrainer] = []
    average = ModelTrainer._average

    def averaged(trainer: ModelTrainer) -> None:
        trainers.append(trainer)
        if len(trainers) == LAST_STEP and (name, attempt, rank) == ("killed", 0, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        average(trainer)

    ModelTrainer._average = averaged  # type: ignore[method-assign]
    for name, fields in json.loads(trainings).items():
        outcome = train(data, Path(output) / name, TrainConfig(**fields), device="cpu")
        if trainers:  # otherwise the first attempt has finished it
            results = {
                "weights": trainers[-1].model.state_dict(),
                "best": asdict(outcome.best),
                "steps": outcome.step_count,
                "steps_of_this_attempt": len(trainers),
            }
            torch.save(results, Path(output) / f"{name}.{rank}.pt")
            trainers.clear()
    settings = Path(output) / "killed" / "config.json"
    command = f"molspec train --data {data} --config {settings} --device cpu --steps 2 --output"
    sys.argv = f"{command} {output}/by-command".split()
    with suppress(SystemExit):
        cli.main()
    sys.argv = f"{command} {output}/mistaken --batch-tokens 9".split()
    cli.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
