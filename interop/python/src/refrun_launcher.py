"""The command `refrun` that pip puts on PATH. It is no part of the package, as that takes a
while to import numpy."""

import os
import subprocess
import sys


def main() -> None:
    """Runs the binary of the wheel, or the one that the package finds, with the same arguments; judge is Python's."""
    if sys.argv[1:2] == ["judge"]:
        from refrun.definition import main as judge

        sys.exit(judge(sys.argv[2:]))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "refrun", "bin", "refrun.exe" if os.name == "nt" else "refrun")
    if not os.path.exists(path):
        import warnings

        warnings.simplefilter("ignore")  # the import warns of what is said below
        from refrun.binary import BinaryError, binary

        try:
            path = binary()
        except BinaryError as e:
            sys.exit(f"refrun: {e}")
    if os.name == "nt":  # exec would return to the shell at once
        sys.exit(subprocess.run([path, *sys.argv[1:]]).returncode)
    os.execv(path, [path, *sys.argv[1:]])
