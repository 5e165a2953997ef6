"""The binary is found where it is, and what cannot be used is said in one line."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from refrun.binary import BinaryError

module = sys.modules["refrun.binary"]  # refrun.binary is the function

LAUNCHER = """#!/usr/bin/python3
import sys
from refrun_launcher import main
sys.exit(main())
"""


def script(folder, name, text):
    path = Path(folder) / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def answering(contract, version="0.1.0", verbs=module._VERBS):
    return f"""#!/bin/sh
[ "$1" = info ] && echo '{json.dumps({"contract": contract, "version": version, "verbs": list(verbs)})}' && exit 0
exit 2
"""


class Binary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        # Neither the binary of an installed wheel nor a source tree is there.
        for patch in (mock.patch.object(module, "_inside", lambda: Path(self.dir) / "none"), mock.patch.object(module, "_source", lambda: None),
                      mock.patch.dict(os.environ, {"PATH": self.dir})):
            patch.start()
            self.addCleanup(patch.stop)
        for name in ("REFRUN_BIN", "REFRUN_SOURCE"):
            os.environ.pop(name, None)
        module.binary.cache_clear()
        self.addCleanup(module.binary.cache_clear)

    def fails(self, *words):
        with self.assertRaises(BinaryError) as e:
            module.binary()
        for w in words:
            self.assertIn(w, str(e.exception))
        self.assertNotIn("\n", str(e.exception))

    def test_missing(self):
        self.fails("no refrun binary: install a wheel")

    def test_on_path(self):
        good = script(self.dir, "refrun", answering(module.CONTRACT))
        self.assertEqual(module.binary(), good)

    def test_launcher_on_path(self):
        """pip's launcher of this package is no binary: it would ask for itself."""
        script(self.dir, "refrun", LAUNCHER)
        self.fails("no refrun binary: install a wheel")

    def test_other_contract(self):
        script(self.dir, "refrun", answering("0"))
        self.fails("contract '0': want '" + module.CONTRACT + "'")

    def test_too_old(self):
        script(self.dir, "refrun", answering(module.CONTRACT, "0.0.1", ["check"]))
        self.fails("version 0.0.1 has no `kernel`: want a newer binary")

    def test_named(self):
        """What $REFRUN_BIN names is used or refused, whatever else there is."""
        script(self.dir, "refrun", answering(module.CONTRACT))
        with mock.patch.dict(os.environ, {"REFRUN_BIN": script(self.dir, "other", "#!/bin/sh\necho nothing\n")}):
            self.fails("other: does not answer `info --json`")

    def test_import(self):
        """A binary that is missing or too old is said at the import, before anything is recorded."""
        code = "import sys; sys.path.insert(0, {!r}); import refrun".format(str(Path(module.__file__).parents[1]))
        old = script(self.dir, "old", answering(module.CONTRACT, "0.0.1", ["check"]))
        good = script(self.dir, "good", answering(module.CONTRACT))
        for path, said in ((old, "RuntimeWarning: refrun: " + old + ": version 0.0.1 has no `kernel`: want a newer binary"), ("/nowhere", "RuntimeWarning: refrun: /nowhere: does not answer"), (good, "")):
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "REFRUN_BIN": path})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual(said == "", done.stderr == "")

    def test_main(self):
        """The launcher passes arguments, output and exit code on, and says in one line that there is no binary."""
        run = "import sys; import refrun_launcher; refrun_launcher.__file__ = {!r}; sys.argv = ['refrun', 'check', 'a b']; refrun_launcher.main()"
        env = {**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[1])}
        inside = Path(self.dir) / "refrun.d"  # as a wheel lies
        (inside / "refrun" / "bin").mkdir(parents=True)
        script(inside / "refrun" / "bin", "refrun", "#!/bin/sh\necho \"got $*\"\nexit 3\n")
        done = subprocess.run([sys.executable, "-c", run.format(str(inside / "refrun_launcher.py"))], capture_output=True, text=True, env=env)
        self.assertEqual((done.returncode, done.stdout), (3, "got check a b\n"))
        none = "import sys; from unittest import mock; import refrun; module = sys.modules['refrun.binary']; module._inside = lambda: mock.Mock(exists=lambda: False); module._source = lambda: None; module.binary.cache_clear(); "
        env["PATH"] = "/nowhere"
        done = subprocess.run([sys.executable, "-c", none + run.format(self.dir + "/none.py")], capture_output=True, text=True, env=env)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertTrue(done.stderr.splitlines()[-1].startswith("refrun: no refrun binary: "), done.stderr)


if __name__ == "__main__":
    unittest.main()
