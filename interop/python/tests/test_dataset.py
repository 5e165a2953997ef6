"""Datasets from Python: made, read, and refused in one line."""

import importlib.util
import json
import shutil
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import refrun

SPEC = {
    "name": "small", "operators": 3, "seed": 3,
    "operator": {"num_layers": 1, "base_channels": 2, "grid_size": 8, "input_channels": 2, "output_channels": 2},
    "rollout": {"num_timesteps": 4, "num_realizations": 2},
    "space": {"operator.noise_scale": {"log": [0.001, 0.1]}},
}


class Dataset(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.set = refrun.make_dataset(SPEC, cls.root / "set")

    def test_units(self):
        self.assertEqual((len(self.set), self.set.made, self.set.name), (3, [0, 1, 2], "small"))
        for i, unit in enumerate(self.set):
            self.assertEqual(unit["unit"], i)
            file = load_file(self.set.path(i))
            np.testing.assert_array_equal(unit["states"], file["trajectory"])
            np.testing.assert_array_equal(unit["metrics"]["energy"], file["metrics.energy"])
            self.assertEqual((unit["states"].shape, unit["states"].dtype), ((2, 4, 2, 8, 8), np.float32))
            p = self.set.parameters(i)
            self.assertEqual(p["identity"], unit["identity"])
            self.assertTrue(0.001 <= p["operator"]["noise_scale"] <= 0.1)
        self.assertEqual(self.set[-1]["unit"], 2)
        self.set.verify()
        self.assertIn("3 operators", repr(self.set))

    def test_again(self):
        """Making what is made changes nothing."""
        self.assertEqual(refrun.make_dataset(SPEC, self.root / "set").identity, self.set.identity)

    def test_half(self):
        """bfloat16 is read as the float32 numbers that it is."""
        half = refrun.make_dataset({**SPEC, "store": {"format": "bfloat16"}}, self.root / "half")
        full, short = self.set[1]["states"], half[1]["states"]
        self.assertEqual(short.dtype, np.float32)
        np.testing.assert_array_equal(short.view(np.uint32) & 0xFFFF, 0)
        np.testing.assert_allclose(short, full, rtol=2**-8)

    def test_features(self):
        """A dataset without states has the initial conditions, and the same identities and metrics."""
        features = refrun.make_dataset({**SPEC, "store": {"states": False}}, self.root / "features")
        unit, whole = features[2], self.set[2]
        self.assertNotIn("states", unit)
        np.testing.assert_array_equal(unit["initial"], whole["states"][0, 0])
        np.testing.assert_array_equal(unit["metrics"]["variance"], whole["metrics"]["variance"])
        self.assertEqual(unit["identity"], whole["identity"])

    def test_hdf5(self):
        """Units in HDF5 files are the same numbers; without h5py one line says what is wanted."""
        for store in ({"file": ".h5", "gzip": 1}, {"file": ".h5", "states": False}):
            other = refrun.make_dataset({**SPEC, "store": store}, self.root / f"hdf5{len(store)}{store.get('states', True)}")
            try:
                import h5py  # noqa: F401
            except ModuleNotFoundError:
                with self.assertRaisesRegex(refrun.DatasetError, "want the package h5py"):
                    other[1]
                continue
            unit, whole = other[1], self.set[1]
            self.assertEqual(unit["identity"], whole["identity"])
            np.testing.assert_array_equal(unit["metrics"]["energy"].astype(np.float32), whole["metrics"]["energy"].astype(np.float32))
            if "states" in unit:
                np.testing.assert_array_equal(unit["states"], whole["states"])
            else:
                np.testing.assert_array_equal(unit["initial"], whole["states"][0, 0])

    def test_torch(self):
        try:
            import torch
        except ModuleNotFoundError:
            return  # .ci/run says so where it is missing
        half = refrun.make_dataset({**SPEC, "store": {"format": "bfloat16"}}, self.root / "half", torch=True)
        self.assertEqual(half[0]["states"].dtype, torch.bfloat16)
        loader = torch.utils.data.DataLoader(refrun.Dataset(self.root / "set", torch=True), batch_size=3)
        (batch,) = list(loader)
        self.assertEqual(tuple(batch["states"].shape), (3, 2, 4, 2, 8, 8))
        np.testing.assert_array_equal(batch["states"][1].numpy(), self.set[1]["states"])
        for data in (self.set, refrun.Dataset(self.root / "set", torch=True)):  # arrays too, by workers, without a warning
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                batches = list(torch.utils.data.DataLoader(data, batch_size=1, num_workers=2))
            self.assertEqual([int(b["unit"]) for b in batches], [0, 1, 2])
            np.testing.assert_array_equal(batches[2]["states"][0].numpy(), self.set[2]["states"])

    def fails(self, words, f):
        with self.assertRaises((refrun.DatasetError, IndexError)) as e:
            f()
        self.assertIn(words, str(e.exception))
        self.assertNotIn("\n", str(e.exception))

    def test_refused(self):
        self.fails("no plan.json: want the folder of refrun dataset plan", lambda: refrun.Dataset(self.root / "none"))
        self.fails("unit 3: want 0 to 2", lambda: self.set[3])
        self.fails("operator.noise_scael: unknown key: did you mean noise_scale?", lambda: refrun.make_dataset({**SPEC, "space": {"operator.noise_scael": {"real": [0, 1]}}}, self.root / "bad"))
        broken = self.root / "broken"
        shutil.copytree(self.root / "set", broken)
        set = refrun.Dataset(broken)
        set.path(1).unlink()
        self.fails("unit 1: not made yet", lambda: set[1])
        set.path(2).write_bytes(b"x")
        self.fails("want a safetensors file", lambda: set[2])
        plan = json.loads((broken / "plan.json").read_text())
        plan["spec"]["store"] = {"file": ".h5"}
        (broken / "plan.json").write_text(json.dumps(plan))
        self.fails("unit 0: not made yet" if importlib.util.find_spec("h5py") else "want the package h5py", lambda: refrun.Dataset(broken)[0])
        (broken / "plan.json").write_text("[]")
        self.fails("Error: want what refrun dataset plan writes", lambda: refrun.Dataset(broken))

    def test_flipped_bit(self):
        broken = self.root / "flipped"
        shutil.copytree(self.root / "set", broken)
        set = refrun.Dataset(broken)
        data = bytearray(set.path(1).read_bytes())
        data[-9] ^= 1
        set.path(1).write_bytes(data)
        with self.assertRaises(refrun.DatasetError):
            set.verify()


if __name__ == "__main__":
    unittest.main()
