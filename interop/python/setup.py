"""Everything is in pyproject.toml. This keeps what a build makes out of the source tree, and tells the
installed package where that tree is, so that it can build the program with Go."""

import atexit
import shutil
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

folder = tempfile.mkdtemp(prefix="refrun-build-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)


class Build(build_py):
    def run(self):
        super().run()
        root = Path(__file__).resolve().parents[2]
        if (root / "cmd" / "refrun").is_dir() and not self.editable_mode:
            (Path(self.build_lib) / "refrun" / "source.txt").write_text(str(root), encoding="utf-8")


setup(options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}}, cmdclass={"build_py": Build})
