"""Finds the refrun binary, or builds it, and shakes hands with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import List, Optional

CONTRACT = "1"  # of refrun's numerical contract


class BinaryError(RuntimeError):
    """There is no refrun binary that can be used."""


def _source() -> Optional[Path]:
    """The source tree that this package lies in, if it does."""
    for p in Path(__file__).resolve().parents:
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


@lru_cache(maxsize=None)
def binary() -> str:
    """The path of the binary: $REFRUN_BIN, the one in this package, the one on
    PATH, or one built with `go` from the source tree or from $REFRUN_SOURCE.

    A binary of another contract, or one that is too old to check, is refused.
    """
    tried: List[str] = []
    named = os.environ.get("REFRUN_BIN")
    inside = _inside()
    on_path = shutil.which("refrun")
    for where, path in (("REFRUN_BIN", named), ("the package", str(inside) if inside.exists() else None), ("PATH", on_path)):
        if not path or where == "PATH" and _is_launcher(path):
            continue
        try:
            _handshake(path)
            return path
        except BinaryError as e:
            if where == "REFRUN_BIN":
                raise
            tried.append(str(e))
    source = Path(os.environ["REFRUN_SOURCE"]) if os.environ.get("REFRUN_SOURCE") else _source()
    if source and shutil.which("go"):
        out = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "refrun" / "refrun"
        out.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["go", "build", "-trimpath", "-o", str(out), "./cmd/refrun"], cwd=source, capture_output=True, text=True)
        if done.returncode:
            raise BinaryError(f"go build ./cmd/refrun in {source}: {done.stderr.strip()[:400]}")
        _handshake(str(out))
        return str(out)
    hint = "install a wheel, which has one, set REFRUN_BIN to one, or put one on PATH (go build ./cmd/refrun)"
    raise BinaryError("; ".join(tried + [f"no refrun binary: {hint}"]))


def _handshake(path: str) -> None:
    try:
        done = subprocess.run([path, "info", "--json"], capture_output=True, text=True, timeout=60)
        info = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as e:
        raise BinaryError(f"{path}: does not answer `info --json` ({type(e).__name__}): want a refrun binary") from e
    if info.get("contract") != CONTRACT:
        raise BinaryError(f"{path}: contract {info.get('contract')!r}: want {CONTRACT!r}, which this package is made for")
    if subprocess.run([path, "check", "--help"], capture_output=True).returncode:
        raise BinaryError(f"{path}: version {info.get('version')} has no `check`: want a newer binary")
