"""Datasets of `refrun dataset`, as sequences of rollouts."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List, Union

import numpy as np

from .binary import binary

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class DatasetError(ValueError):
    """A folder that is no dataset, or a unit that cannot be read: one line."""


class Dataset:
    """The units of a dataset's folder, one for each sampled operator.

        set = refrun.Dataset("set")
        len(set)                        # the operators that were planned
        set[17]["states"]               # [realization, time, channel, y, x]
        set.parameters(17)              # operator, rollout, initial condition, seeds

    A unit is a dict: `states`, `metrics` (name to [realization, time]), `unit`, `identity`; of a
    dataset that keeps no states `initial` [channel, y, x] in their place. Units in .h5 files
    want the package h5py.
    States are numpy arrays in the type that they are stored in, but bfloat16 as float32, which
    has the same numbers; with torch=True they are tensors, bfloat16 too. That is a map-style
    dataset for torch.utils.data.DataLoader: files are opened as units are asked for, in any
    process. A unit that is not made yet is a DatasetError; `made` lists those that are.
    """

    def __init__(self, folder: Union[str, Path], *, torch: bool = False):
        self.folder, self.torch = Path(folder), torch
        try:
            plan = json.loads((self.folder / "plan.json").read_text())
            self.name, self.units, self.identity, self.spec = plan.get("name", ""), int(plan["units"]), plan["identity"], plan["spec"]
        except FileNotFoundError:
            raise DatasetError(f"{self.folder}: no plan.json: want the folder of refrun dataset plan") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            raise DatasetError(f"{self.folder}/plan.json: {type(e).__name__}: want what refrun dataset plan writes") from e
        self._suffix = (self.spec.get("store") or {}).get("file", ".safetensors")

    def __len__(self) -> int:
        return self.units

    def path(self, unit: int) -> Path:
        """The file of a unit."""
        return self.folder / "units" / f"{unit // 1000:05d}" / f"{unit:08d}{self._suffix}"

    @property
    def made(self) -> List[int]:
        """The units that are made, which their records say."""
        return [i for i in range(self.units) if self.path(i).with_suffix(".json").exists()]

    def _index(self, unit: int) -> int:
        i = int(unit)
        if not -self.units <= i < self.units:
            raise IndexError(f"unit {i}: want 0 to {self.units - 1}")
        return i % self.units

    def __getitem__(self, unit: int) -> Dict[str, Any]:
        i = self._index(unit)
        if self._suffix == ".h5":
            return self._hdf5(i)
        header, arrays = _read(self.path(i), i)
        out: Dict[str, Any] = {"unit": i, "metrics": {}}
        for name, a in arrays.items():
            if name == "trajectory":
                out["states"] = _tensor(*a) if self.torch else _array(*a)
            elif name.startswith("metrics."):
                out["metrics"][name[len("metrics."):]] = _tensor(*a) if self.torch else _array(*a)
            elif name == "initial":
                out["initial"] = _tensor(*a) if self.torch else _array(*a)
        try:
            out["identity"] = _identity(header["__metadata__"]["identity"])
        except (KeyError, ValueError, IndexError, TypeError):
            raise DatasetError(f"{self.path(i)}: no identity: want a unit of refrun dataset run") from None
        return out

    def _hdf5(self, i: int) -> Dict[str, Any]:
        """A unit of an HDF5 file, which h5py reads."""
        try:
            import h5py
        except ImportError:
            raise DatasetError(f"{self.folder}: units in .h5 files: want the package h5py to read them") from None
        path = self.path(i)
        if not path.exists():
            raise DatasetError(f"unit {i}: not made yet: refrun dataset run makes it")

        def view(dataset: Any) -> Any:
            a = dataset[0]
            if not self.torch:
                return a
            import torch

            return torch.from_numpy(a)

        try:
            with h5py.File(path, "r") as f:
                out: Dict[str, Any] = {"unit": i, "metrics": {k: view(v) for k, v in f["metrics"].items()}}
                for name, at in (("states", "trajectories"), ("initial", "inputs/fields")):
                    if at in f:
                        out[name] = view(f[at])
                out["identity"] = _identity(f["metadata"].attrs["identity"])
        except (OSError, KeyError, ValueError, IndexError, TypeError) as e:
            raise DatasetError(f"{path}: {type(e).__name__}: want an HDF5 file; refrun dataset verify says which units differ") from e
        return out

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return (self[i] for i in range(self.units))

    def parameters(self, unit: int) -> Dict[str, Any]:
        """What a unit is: point, operator, rollout, initial, seeds, identity, and its record if it is made."""
        return json.loads(_run("dataset", "info", str(self.folder), "--unit", str(self._index(unit)), "--json"))

    def verify(self) -> None:
        """Reads every unit and compares it with its hashes; DatasetError with refrun's lines if one differs."""
        _run("dataset", "verify", str(self.folder), "--read")

    def __repr__(self) -> str:
        return f"<refrun.Dataset {self.name!r}: {self.units} operators, {self.identity[:12]}>"


def make_dataset(spec: Union[str, Path, Dict[str, Any]], folder: Union[str, Path], *, torch: bool = False) -> Dataset:
    """Plans a dataset in a new folder, of a specification's file or of its keys, and makes it.

    A folder that holds the plan already is gone on with. docs/DATASETS.md has the keys.
    """
    folder = Path(folder)
    if not (folder / "plan.json").exists():
        path = Path(spec) if isinstance(spec, (str, Path)) else None
        if path is None:
            path = folder.with_name(folder.name + ".spec.json")
            path.write_text(json.dumps(spec))
        _run("dataset", "plan", os.fspath(path), "-o", os.fspath(folder), "--quiet")
    _run("dataset", "run", os.fspath(folder), "--quiet")
    return Dataset(folder, torch=torch)


def _identity(text: str) -> str:
    """The unit's identity: the text itself, or of a rollout's file the first of its pairs."""
    return json.loads(text)[0][1] if text.startswith("[") else text


def _run(*args: str) -> str:
    done = subprocess.run([binary(), *args], capture_output=True, text=True)
    if done.returncode:
        raise DatasetError((done.stderr.strip() or done.stdout.strip() or f"refrun {args[0]} {args[1]} ended with {done.returncode}"))
    return done.stdout


def _read(path: Path, unit: int):
    """The header of a safetensors file, and dtype, shape and bytes of its tensors."""
    try:
        data = memoryview(path.read_bytes())
    except FileNotFoundError:
        raise DatasetError(f"unit {unit}: not made yet: refrun dataset run makes it") from None
    try:
        (n,) = struct.unpack("<Q", data[:8])
        header = json.loads(bytes(data[8 : 8 + n]))
        arrays = {}
        for name, t in header.items():
            if name != "__metadata__" and t["dtype"] in _DTYPES:
                lo, hi = t["data_offsets"]
                arrays[name] = (t["dtype"], t["shape"], data[8 + n + lo : 8 + n + hi])
        return header, arrays
    except (struct.error, ValueError, KeyError, TypeError) as e:
        raise DatasetError(f"{path}: {type(e).__name__}: want a safetensors file; refrun dataset verify says which units differ") from e


def _array(dtype: str, shape: List[int], data: memoryview) -> np.ndarray:
    a = np.frombuffer(bytearray(data), _DTYPES[dtype]).reshape(shape)
    if dtype == "BF16":
        return (a.astype(np.uint32) << 16).view(np.float32)
    return a


def _tensor(dtype: str, shape: List[int], data: memoryview):
    import torch

    kind = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[dtype]
    return torch.frombuffer(bytearray(data), dtype=kind).reshape(shape)
