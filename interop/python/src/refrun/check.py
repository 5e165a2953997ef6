"""Has the oracle judge a case, and returns what it found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from .binary import binary


class Report:
    """What `refrun check` found. Every key of its JSON is an attribute; str() is the text for people."""

    def __init__(self, data: Dict[str, Any], text: str):
        self.data, self.text = data, text

    verdict: str
    reason: str

    def __getattr__(self, key: str) -> Any:
        try:
            return self.__dict__["data"][key]
        except KeyError:
            raise AttributeError(f"the report has no {key!r}") from None

    @property
    def ok(self) -> bool:
        """Whether the verdict is a pass."""
        return self.data["verdict"].startswith("PASS")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<refrun.Report {self.data['verdict']}>"


def check(case: Union[str, Path], *, claim: Optional[str] = None, autocast: Optional[str] = None, noise: Optional[str] = None,
          budget: Optional[str] = None, report: Optional[str] = None, junit: Optional[str] = None) -> Report:
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
            args += ["--" + flag, value]
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
