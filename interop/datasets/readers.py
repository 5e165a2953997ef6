"""Reads a dataset of refrun's with the programs that its layouts are for, and compares
every number with refrun's own.

    readers.py --refrun PATH [--checker check_thewell_formatting.py] [--spinlock FOLDER]

needs numpy, h5py, zarr, xarray, safetensors and the_well. The checker is a script of The
Well's sources, FOLDER a checkout of Spinlock, whose HDF5DatasetReader and TrajectoryReader
are used as they are. Three datasets are made in a temporary folder: of safetensors, of HDF5
and of float16.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import h5py
import numpy as np
import xarray
import zarr
from safetensors.numpy import load_file
from the_well.data import WellDataset

SPEC = {
    "name": "readers", "operators": 10, "seed": 3,
    "operator": {"grid_size": 12, "noise_type": "gaussian", "base_channels": 4},
    "rollout": {"num_timesteps": 9, "num_realizations": 2},
    "space": {
        "operator.num_layers": {"integer": [0, 2]},
        "operator.noise_scale": {"log": [0.001, 0.3]},
        "rollout.policy_type": {"choice": ["convex", "residual"]},
        "initial": {"choice": [{"type": "white"}, {"type": "localized", "num_blobs": 2}]},
    },
}


def same(name, a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape, f"{name}: {a.shape}, want {b.shape}"
    assert np.array_equal(a, b), f"{name}: other numbers"
    print(f"{name}: {a.size} numbers equal")


def module(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--refrun", default="refrun")
    p.add_argument("--checker")
    p.add_argument("--spinlock")
    args = p.parse_args()

    def refrun(*a):
        return subprocess.run([args.refrun, "dataset", *map(str, a)], check=True, capture_output=True, text=True).stdout

    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        for name, store in (("tensors", {}), ("hdf5", {"file": ".h5", "gzip": 1}), ("half", {"format": "float16", "file": ".h5"})):
            (tmp / f"{name}.json").write_text(json.dumps({**SPEC, "store": store}))
            folder = tmp / name
            refrun("plan", tmp / f"{name}.json", "-o", folder, "--rate", 10)
            refrun("run", folder, "--quiet")
            print(f"-- {name}")
            readers(refrun, folder, args)


def readers(refrun, folder, args):
    """One dataset, by all readers."""
    refrun("merge", folder, "-o", folder / "all.safetensors")
    ours = load_file(folder / "all.safetensors")
    states = ours["trajectories"]
    n, m, t, c, h, w = states.shape
    refrun("merge", folder, "-o", folder / "all.h5")
    with h5py.File(folder / "all.h5") as f:
        same("h5py /trajectories", f["trajectories"][...], states)
        same("h5py /outputs/fields", f["outputs/fields"][...], states)
        same("h5py /parameters/params", f["parameters/params"][...], ours["parameters"].astype("f4"))
        for k in ("energy", "entropy", "autocorrelation", "variance", "mean_magnitude"):
            got, want = f[f"metrics/{k}"][...], ours[f"metrics.{k}"].astype("f4")
            same(f"h5py /metrics/{k}", np.nan_to_num(got), np.nan_to_num(want))
        if states.dtype == np.float32:
            same("h5py /inputs/fields", f["inputs/fields"][...], states[:, 0, 0])
        units = [json.loads(refrun("info", folder, "--unit", i, "--json")) for i in range(n)]
        assert [s.decode() for s in f["metadata/ic_types"]] == [u["initial"]["type"] for u in units]
        assert [s.decode().split("(")[0] for s in f["metadata/evolution_policies"]] == [u["rollout"]["policy_type"] for u in units]
        at = list(f["parameters"].attrs["names"]).index("operator.noise_scale")
        same("h5py /parameters/values", f["parameters/values"][:, at], [u["operator"]["noise_scale"] for u in units])
    well(refrun, folder, states, args)
    stores(refrun, folder, states, ours)
    refrun("export", folder, "-o", folder / "apart", "--format", "safetensors")
    for i in range(n):
        one = load_file(folder / "apart" / f"{i:08d}.safetensors")
        assert np.array_equal(one["trajectory"], states[i]) and np.array_equal(one["parameters"], ours["parameters"][i])
    print(f"safetensors: {n} files equal")
    if args.spinlock:
        spinlock(folder / "all.h5", states, ours, Path(args.spinlock))


def well(refrun, folder, states, args):
    refrun("export", folder, "-o", folder / "well", "--format", "well", "--split", "6,2,2")
    n, m, t, c, h, w = states.shape
    lo = 0
    for part, count in (("train", n * 6 // 10), ("valid", n * 2 // 10), ("test", n * 2 // 10)):
        d = WellDataset(path=str(folder / "well"), well_split_name=part, n_steps_input=t - 1, n_steps_output=1, use_normalization=False)
        assert len(d) == count * m, f"{len(d)} windows"
        want = states[lo:lo + count].reshape(count * m, t, c, h, w).astype("f4")
        got = np.stack([np.concatenate([x["input_fields"], x["output_fields"]]) for x in (d[i] for i in range(len(d)))])
        same(f"WellDataset {part}", np.moveaxis(got, -1, 2), want)
        names = list(d.constant_scalar_names)
        same(f"WellDataset {part} operator", [float(d[i]["constant_scalars"][names.index("operator")]) for i in range(len(d))], np.repeat(np.arange(lo, lo + count), m))
        lo += count
        if args.checker:
            module(args.checker, "checker").check_hdf5_format(str(next((folder / "well" / "data" / part).glob("*.h5"))))
    d = WellDataset(path=str(folder / "well"), well_split_name="train", full_trajectory_mode=True, n_steps_input=1, use_normalization=False, max_rollout_steps=t)
    same("WellDataset to_xarray c0", d.to_xarray(backend="numpy")["c0"].values, states[: n * 6 // 10, :, :, 0].reshape(-1, t, h, w).astype("f4"))


def stores(refrun, folder, states, ours):
    for level in (4, 0):
        path = folder / f"gzip{level}.zarr"
        refrun("export", folder, "-o", path, "--format", "zarr", "--gzip", level)
        z = zarr.open_group(path, mode="r")
        same(f"zarr-python trajectories, gzip {level}", z["trajectories"][...], states)
        assert z["trajectories"].shards == (1, *states.shape[1:]) and z.metadata.consolidated_metadata is not None
        x = xarray.open_zarr(path)
        same(f"xarray trajectories, gzip {level}", x["trajectories"].values, states)
        assert x["trajectories"].dims == ("operator", "realization", "time", "channel", "y", "x")
        same("xarray params", x["params"].values, ours["parameters"])
        same("xarray energy", x["energy"].values, ours["metrics.energy"])
        if states.dtype == np.float32:
            same("zarr-python inputs", z["inputs"][...], states[:, 0, 0])


def spinlock(path, states, ours, at):
    reader = module(at / "src/spinlock/dataset/storage.py", "storage").HDF5DatasetReader
    with reader(path) as r:
        same("Spinlock get_parameters", r.get_parameters(), ours["parameters"].astype("f4"))
        same("Spinlock get_inputs(0)", r.get_inputs(0), r.get_inputs()[0])
        same("Spinlock get_outputs", r.get_outputs(), states)
        same("Spinlock get_outputs(slice)", r.get_outputs(slice(2, 5)), states[2:5])
        assert r.num_samples == len(states) and r.shape_info["outputs"] == states.shape
        for f in (r.get_ic_types, r.get_evolution_policies, r.get_grid_sizes, r.get_noise_regimes):
            assert len(f()) == len(states), f
        assert r.get_metadata()["num_parameter_sets"] == len(states), r.get_metadata()
    # Its file imports a neighbour: a package of that folder without its __init__.py, which needs all of Spinlock.
    package = types.ModuleType("rollout")
    package.__path__ = [str(at / "src/spinlock/rollout")]
    sys.modules["rollout"] = package
    with importlib.import_module("rollout.trajectory").TrajectoryReader(path) as r:
        for i in range(len(states)):
            for k in range(states.shape[1]):
                assert np.array_equal(np.asarray(r.get_trajectory(i, k)), states[i, k]), (i, k)
                want = ours["metrics.energy"][i, k].astype("f4")
                assert np.array_equal([x.energy for x in r.get_metrics(i, k)], want), (i, k)
        print("Spinlock get_trajectory, get_metrics: all equal", r.shape_info)


if __name__ == "__main__":
    sys.exit(main())
