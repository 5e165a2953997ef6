"""Has the oracle judge a case, and returns what it found."""

from __future__ import annotations

import copy
import html
import json
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from .binary import binary


_DEFAULTS: Dict[str, Any] = {
    "verdict": "", "reason": "", "first_step": -1, "first_realization": -1, "first_layer": "", "slice": "", "diagnosis": "", "subject": "",
    "shape": [], "claim": "", "contract": "", "one_step": {}, "expected": {}, "horizon": None, "growth_per_step": None,
    "noise": {}, "steps": [], "fields": [], "layers": [], "blind": [], "worst": [], "findings": [], "unjudged": [], "skipped": [], "notes": [], "ulps": {}}


class Report:
    """What a check found. `str()` is the text for people; in a notebook it is a table.

    Every attribute below is always there; what a check did not find out has its default. `data`
    is the JSON as it came, all keys of which are attributes too: docs/FORMATS.md, section 6.
    """

    verdict: str
    """PASS-CONFORMING, PASS-ACCURATE, FAIL-LOGIC, FAIL-PRECISION, FAIL-RNG, FAIL-ROLLOUT or NO-POWER."""
    reason: str
    """Why, in sentences."""
    first_step: int
    """The first wrong step, from 1; -1 if none is."""
    first_realization: int
    first_layer: str
    """PyTorch's name of the layer that is wrong there, "" if it is not known."""
    slice: str
    """Where in the image, in words."""
    diagnosis: str
    """The name of the fault, if it is a known one."""
    subject: str
    shape: List[int]
    """[M,T,C,H,W] of the trajectory."""
    claim: str
    contract: str
    one_step: Dict[str, float]
    """max_abs, mean_abs (in the units of the state) and rms_over_expected of single steps' errors."""
    expected: Dict[str, float]
    horizon: Optional[int]
    """The step from which a comparison of free rollouts says nothing; None if it was not measured."""
    growth_per_step: Optional[float]
    noise: Dict[str, Any]
    steps: List[Dict[str, Any]]
    """Of each step: step, max_abs, mean_abs, r64, re, peak, violation."""
    fields: List[Dict[str, Any]]
    """Errors by step and channel: step, channel, max_abs, mean_abs, rel_l2, vrmse (docs/FORMATS.md); none of unknown noise."""
    layers: List[Dict[str, Any]]
    blind: List[Dict[str, Any]]
    """What this run could not have shown."""
    worst: List[Dict[str, Any]]
    findings: List[Dict[str, Any]]
    unjudged: List[str]
    """What the device returned and nothing was held against: with any of it no verdict is a pass."""
    skipped: List[str]
    notes: List[str]
    ulps: Dict[str, Any]

    def __init__(self, data: Dict[str, Any], text: str):
        self.data, self.text = data, text
        for key in {**_DEFAULTS, **data}:
            if key not in ("data", "text", "ok"):
                value = data.get(key)
                setattr(self, key, copy.copy(_DEFAULTS.get(key)) if value is None else value)

    @property
    def ok(self) -> bool:
        """Whether the verdict is a pass."""
        return self.verdict.startswith("PASS")

    def plot(self, ax: Any = None) -> Any:
        """Draws the error of each step, of what the claim makes one expect, and returns the axes. Needs matplotlib."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("Report.plot needs matplotlib, which is not installed: pip install matplotlib") from None
        if ax is None:
            _, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
        at = [s["step"] for s in self.steps]
        for key, label in (("re", "RMS error / expected"), ("peak", "largest error / expected")):
            ax.plot(at, [_number(s[key]) for s in self.steps], label=label)
        wrong = [s for s in self.steps if s["violation"]]
        if wrong:
            ax.plot([s["step"] for s in wrong], [_number(s["peak"]) for s in wrong], "o", color="tab:red", label="wrong")
        ax.axhline(1, color="0.6", linewidth=0.8)
        if at:
            ax.set_yscale("log")
            ax.legend()
        ax.set(xlabel="step", ylabel="error / expected", title=self.verdict)
        return ax

    def _repr_html_(self) -> str:
        colour = "#1a7f37" if self.ok else "#8a6300" if self.verdict == "NO-POWER" else "#c02434"
        facts = [("claim", self.claim), ("first wrong step", self.first_step if self.first_step >= 0 else ""), ("layer", self.first_layer), ("where", self.slice), ("cause", self.diagnosis)]
        rows = "".join(f"<tr><th style='text-align:left'>{html.escape(k)}</th><td style='text-align:left'>{html.escape(str(v))}</td></tr>" for k, v in facts if v != "")
        return (f"<div><b style='color:{colour};font-size:120%'>{html.escape(self.verdict)}</b><p style='max-width:72ch'>{html.escape(self.reason)}</p>"
                f"<table>{rows}</table><details><summary>the whole report</summary><pre>{html.escape(self.text)}</pre></details></div>")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<refrun.Report {self.verdict}>"


def _number(v: Any) -> float:
    """A figure of the JSON, which has NaN and infinities as text."""
    return float(v) if v is not None else float("nan")


def check(case: Union[str, Path], *, claim: Optional[str] = None, autocast: Optional[str] = None, noise: Optional[str] = None,
          budget: Optional[str] = None, report: Union[str, Path, None] = None, junit: Union[str, Path, None] = None) -> Report:
    """Checks a case folder.

    claim, autocast and noise override what the case says ("unknown" for noise
    that cannot be reproduced, the default where it could not be recorded);
    budget is a time such as "5m"; report and junit are files to write. Bad input
    raises ValueError with refrun's own line.
    """
    if noise is None:
        noise = _recorded_noise(case)
    args: List[str] = [binary(), "check", "--case", str(case)]
    for flag, value in (("claim", claim), ("autocast", autocast), ("noise", noise), ("budget", budget), ("report", report), ("junit", junit)):
        if value is not None:
            args += ["--" + flag, str(value)]
    done = subprocess.run(args + ["--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        raise ValueError(done.stderr.strip() or f"refrun check ended with {done.returncode}")
    data = json.loads(done.stdout)
    return Report(data, data.get("text") or f"{data['verdict']}\n{data['reason']}")


def _recorded_noise(case: Union[str, Path]) -> Optional[str]:
    """Says "unknown" where the recorder says that it could not record the noise."""
    try:
        said = json.loads((Path(case) / "case.json").read_text()).get("noise")
        return said if said == "unknown" else None
    except (OSError, ValueError, AttributeError):
        return None  # refrun says what is wrong with it


def assert_pass(case: Union[str, Path], **options: Any) -> Report:
    """Checks a case and raises AssertionError with the whole report unless it passes; for pytest."""
    __tracebackhide__ = True
    r = check(case, **options)
    if not r.ok:
        raise AssertionError(str(r))
    return r
