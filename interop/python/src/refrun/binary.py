"""Finds the refrun binary, or builds it, and shakes hands with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import warnings
from functools import lru_cache
from pathlib import Path
from typing import List, Optional, Tuple

CONTRACT = "1"  # of refrun's numerical contract
_VERBS = ("check", "kernel", "dataset", "serve")  # that this package calls


class BinaryError(RuntimeError):
    """There is no refrun binary that can be used."""


def _source() -> Optional[Path]:
    """The source tree that this package lies in, or was installed from, if it is there."""
    told = Path(__file__).parent / "source.txt"
    for p in [*Path(__file__).resolve().parents, *([Path(told.read_text(encoding="utf-8"))] if told.exists() else [])]:
        if (p / "cmd" / "refrun").is_dir() and (p / "go.mod").is_file():
            return p
    return None


def _inside() -> Path:
    """Where wheels have the binary."""
    return Path(__file__).parent / "bin" / ("refrun.exe" if os.name == "nt" else "refrun")


def _is_launcher(path: str) -> bool:
    """Whether a program is refrun_launcher, as pip installs it: of a package without a binary it
    would ask this package for one."""
    try:
        with open(path, "rb") as f:
            return b"refrun_launcher" in f.read(1 << 16)
    except OSError:
        return False


def _candidates() -> List[Tuple[str, str]]:
    """Where a binary may be, and the path: the first that answers is used."""
    inside = _inside()
    found = (("REFRUN_BIN", os.environ.get("REFRUN_BIN")), ("the package", str(inside) if inside.exists() else None), ("PATH", shutil.which("refrun")))
    return [(where, path) for where, path in found if path and not (where == "PATH" and _is_launcher(path))]


def _builds() -> Optional[Path]:
    """The source tree that a binary can be built from, if there is one, and Go."""
    source = Path(os.environ["REFRUN_SOURCE"]) if os.environ.get("REFRUN_SOURCE") else _source()
    return source if source and shutil.which("go") else None


@lru_cache(maxsize=None)
def binary() -> str:
    """The path of the binary: $REFRUN_BIN, the one in this package, the one on
    PATH, or one built with `go` from the source tree or from $REFRUN_SOURCE.

    A binary of another contract, or one that is too old for this package, is refused.
    """
    tried: List[str] = []
    for where, path in _candidates():
        try:
            _handshake(path)
            return path
        except BinaryError as e:
            if where == "REFRUN_BIN":
                raise
            tried.append(str(e))
    source = _builds()
    if source:
        out = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "refrun" / "refrun"
        out.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["go", "build", "-trimpath", "-o", str(out), "./cmd/refrun"], cwd=source, capture_output=True, text=True)
        if done.returncode:
            raise BinaryError(f"go build ./cmd/refrun in {source}: {done.stderr.strip()[:400]}")
        _handshake(str(out))
        return str(out)
    hint = "install a wheel, which has one, set REFRUN_BIN to one, or put one on PATH (go build ./cmd/refrun)"
    raise BinaryError("; ".join(tried + [f"no refrun binary: {hint}"]))


def warn_if_missing() -> None:
    """Warns where no binary can be used, before anything is recorded for it. Nothing is built yet."""
    if _builds() and not os.environ.get("REFRUN_BIN"):
        return
    try:
        binary()
    except BinaryError as e:
        warnings.warn(f"refrun: {e}", RuntimeWarning, stacklevel=3)
        binary.cache_clear()


def _handshake(path: str) -> None:
    try:
        done = subprocess.run([path, "info", "--json"], capture_output=True, text=True, timeout=60)
        info = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as e:
        raise BinaryError(f"{path}: does not answer `info --json` ({type(e).__name__}): want a refrun binary") from e
    if info.get("contract") != CONTRACT:
        raise BinaryError(f"{path}: contract {info.get('contract')!r}: want {CONTRACT!r}, which this package is made for")
    missing = [v for v in _VERBS if v not in info.get("verbs", [])]
    if missing:
        raise BinaryError(f"{path}: version {info.get('version')} has no `{missing[0]}`: want a newer binary")
