"""One process of refrun that answers many questions."""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import Any, Dict

from .binary import binary


class Batch:
    """`refrun kernel --batch -`, for the time of a with: ask("run.safetensors", "--op", "softmax") returns a report."""

    def __enter__(self) -> "Batch":
        self._complaints = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [binary(), "kernel", "--batch", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.communicate()
        self._complaints.close()

    def ask(self, *arguments: str) -> Dict[str, Any]:
        """What `refrun kernel --json` prints of these arguments; ValueError with its line where it refuses them."""
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(arguments) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):
            self._complaints.seek(0)
            raise ValueError(self._complaints.read().strip() or "refrun kernel --batch ended") from None
        if "error" in answer:
            raise ValueError(answer["error"])
        report: Dict[str, Any] = answer["report"]
        return report
