"""What a user writes, with every type that refrun gives: mypy --strict has nothing to say (.ci/run). It is not run."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import refrun


def verdict(operator: nn.Module, x: torch.Tensor, folder: Path) -> str:
    with refrun.record(folder, operator, policy="convex", alpha=0.5, precision="float16") as rec, torch.no_grad():
        for _ in range(4):
            x = 0.5 * x + 0.5 * operator(x)
        rec.finish(x)
    report: refrun.Report = refrun.check(folder, report=folder / "report.html")
    if not report.ok and report.first_step is not None:
        print(report.verdict, report.first_step + 1, report.first_layer, report.diagnosis)
    return report.verdict


def fallback(operator: nn.Module, x: torch.Tensor) -> torch.Tensor:
    exact = refrun.reference(operator, precision="float32")
    y: torch.Tensor = exact(x)
    refrun.assert_same(operator, x, y)
    return y


def rollout(x: npt.NDArray[np.float32], weights: dict[str, npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    r: refrun.Rollout = refrun.run({"input_channels": 3, "nodes": []}, x, steps=10, weights=weights)
    states: npt.NDArray[np.float32] = r.states
    print(r.digest.upper(), refrun.binary())
    return states


def arrays(folder: Path, states: npt.NDArray[np.float32]) -> None:
    case = refrun.Case(folder, {"input_channels": 3, "nodes": []}, policy_type="convex", alpha=0.5)
    case.states(states)
    path: Path = case.close()
    refrun.assert_pass(path)
