"""Case folders, written from arrays (docs/FORMATS.md of refrun describes them)."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

import numpy as np

Pathlike = Union[str, Path]


class CaseError(ValueError):
    """What was given makes no case: one line that names field, value and expectation."""


class Raw:
    """An array of a type that numpy may lack: its bytes, as they are."""

    def __init__(self, dtype: str, shape: Sequence[int], data: bytes):
        self.dtype, self.shape, self.data = dtype, tuple(int(n) for n in shape), data


_NUMPY = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "bool": "BOOL"}
_TORCH = {"torch." + k: v for k, v in _NUMPY.items()}


def raw(value: Any, name: str = "array") -> Raw:
    """The bytes of a numpy or JAX array, or of a torch tensor on any device."""
    if isinstance(value, Raw):
        return value
    kind = str(getattr(value, "dtype", ""))
    if kind in _TORCH:
        import torch

        t = value.detach().cpu().contiguous()
        bits = t.view(torch.int16) if t.element_size() == 2 else t
        return Raw(_TORCH[kind], t.shape, bits.numpy().tobytes())
    a = np.asarray(value)
    a = np.ascontiguousarray(a).reshape(a.shape)  # one number has no axes
    code = _NUMPY.get(a.dtype.name)
    if code is None:
        raise CaseError(f"{name}: dtype {a.dtype}: want float32, float16, bfloat16 or float64")
    return Raw(code, a.shape, a.tobytes())


def stack(parts: Sequence[Raw], shape: Sequence[int], name: str) -> Raw:
    """Arrays of one type, one after another, as one array of that shape."""
    for p in parts:
        if p.dtype != parts[0].dtype or p.shape != parts[0].shape:
            raise CaseError(f"{name}: {p.dtype} {list(p.shape)} after {parts[0].dtype} {list(parts[0].shape)}: want one type and shape throughout")
    return Raw(parts[0].dtype, shape, b"".join(p.data for p in parts))


def write_safetensors(path: Path, tensors: Mapping[str, Raw], metadata: Optional[Mapping[str, Any]] = None) -> str:
    """Writes a safetensors file and returns its SHA-256."""
    header: Dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = {k: str(v) for k, v in metadata.items()}
    at = 0
    for name, t in tensors.items():
        header[name] = {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": [at, at + len(t.data)]}
        at += len(t.data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    def pieces() -> Iterator[bytes]:
        for piece in [struct.pack("<Q", len(text)), text, *(t.data for t in tensors.values())]:
            digest.update(piece)
            yield piece

    replace(path, pieces())
    return digest.hexdigest()


def replace(path: Path, pieces: Iterable[bytes]) -> None:
    """Writes a file whole or not at all, and never through a link: beside it, to a new file that gets the name."""
    handle, partial = tempfile.mkstemp(prefix=path.name + ".", suffix=".refrun.tmp", dir=path.parent)
    try:
        with open(handle, "wb") as f:
            for piece in pieces:
                f.write(piece)
            f.flush()
            os.fsync(f.fileno())
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_SHORT = {"half": "float16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32", "fp64": "float64", "double": "float64"}


def precision_name(precision: Any) -> Any:
    """The name of a precision that may be a dtype of torch or numpy, or "fp16", "bf16" and the like; None stays."""
    if precision is None:
        return None
    name = str(getattr(precision, "__name__", precision)).split(".")[-1]
    return _SHORT.get(name, name)


def _left(path: Path) -> List[Path]:
    """The files of the case that is in a folder already; those of a folder that is none are somebody's."""
    if not path.is_dir():
        if path.exists() or path.is_symlink():
            raise CaseError(f"{path}: is no folder: want a new one, or one of a case")
        return []
    patterns = ["case.json", "SHA256SUMS", "step.json", *(f"{n}.safetensors" for n in ("weights", "inputs", "trajectory", "noise", "layers", "layers.step*", "one_step_f64"))]
    files = [f for pattern in patterns for f in sorted(path.glob(pattern))]
    if files and not _is_case(path / "case.json"):
        raise CaseError(f"{files[0]}: is there, in a folder that is no case: want a new folder, an empty one, or one with a case.json of a case")
    return files


# What case.json says until the case is whole: by it the next one knows the folder as its own.
_begun = b'{"version": 1, "operator": {}, "rollout": {}, "incomplete": "the recording did not end"}\n'


def _is_case(file: Path) -> bool:
    try:
        doc = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(doc, dict) and ("operator" in doc or "step" in doc) and "rollout" in doc


class Case:
    """A case folder in the making, from arrays of any framework.

    operator is the `operator` object of case.json: Spinlock's parameters, or
    {"input_channels": C, "nodes": [...]}. rollout holds policy_type, alpha or
    dt, precision, autocast and base_seed as there; num_timesteps and
    num_realizations follow from the states. A case that lies there already is
    removed; other files are left alone. A folder that has such files and is no
    case is refused.
    """

    def __init__(self, path: Pathlike, operator: Mapping[str, Any], **rollout: Any):
        self.path = Path(path)
        for old in _left(self.path):
            old.unlink()
        self.path.mkdir(parents=True, exist_ok=True)
        replace(self.path / "case.json", [_begun])
        self.operator, self.rollout = dict(operator), dict(rollout)
        if "precision" in rollout:
            self.rollout["precision"] = precision_name(rollout["precision"])
        self.info: Dict[str, Any] = {}
        self.hashes: Dict[str, str] = {}
        self.graph = ""  # the file of a step graph

    def _write(self, name: str, tensors: Mapping[str, Raw], metadata: Optional[Mapping[str, Any]] = None) -> None:
        self.hashes[name] = write_safetensors(self.path / name, tensors, metadata)

    def weights(self, state: Mapping[str, Any]) -> None:
        """The parameters by PyTorch's names, float32."""
        out = {}
        for name, value in state.items():
            r = raw(value, name)
            if r.dtype in ("F16", "BF16", "F64"):
                r = _as_float32(name, r)
            out[name] = r
        self._write("weights.safetensors", out)

    def states(self, trajectory: Any, start: Any = None) -> None:
        """The states [M,T,C,H,W] in the device's own type, the initial one included.

        start is the initial condition [M,C,H,W] or [C,H,W] before it is normalized or
        clamped; without either it is state 0.
        """
        r = raw(trajectory, "trajectory")
        if len(r.shape) != 5 or r.shape[1] < 2:
            raise CaseError(f"trajectory: shape {list(r.shape)}: want [M,T,C,H,W] with T of 2 or more")
        m, t = r.shape[:2]
        size = len(r.data) // m // t
        tensors = {"trajectory": r}
        if start is not None:
            tensors["initial_condition"] = raw(start, "start")
        elif self.rollout.get("normalization") in (None, "", "none") and not self.rollout.get("clamp_range"):
            tensors["initial_condition"] = Raw(r.dtype, (m, *r.shape[2:]), b"".join(r.data[i * t * size:][:size] for i in range(m)))
        self.rollout["num_realizations"], self.rollout["num_timesteps"] = m, t
        self._write("trajectory.safetensors", tensors)

    def trajectory(self, states: Sequence[Raw]) -> None:
        """The states in order, each [M,C,H,W] of one type."""
        m, t, size = states[0].shape[0], len(states), len(states[0].data) // states[0].shape[0]
        whole = stack(states, (t, *states[0].shape), "state")
        data = b"".join(whole.data[(k * m + i) * size:][:size] for i in range(m) for k in range(t))
        self.states(Raw(states[0].dtype, (m, t, *states[0].shape[1:]), data))

    def step(self, net: Any, given: Mapping[str, Any]) -> None:
        """The step as a graph, a `refrun.Network` whose inputs have the names of docs/FORMATS.md, in place of an operator; and what
        it is given: static.NAME as it is, forcing.NAME and noise.NAME for each step, [T-1,...]."""
        self.graph = "step.json"
        for name, data in net.files(self.graph, "weights.safetensors").items():
            replace(self.path / name, [data])
            self.hashes[name] = hashlib.sha256(data).hexdigest()
        if given:
            self._write("inputs.safetensors", {k: raw(v, k) for k, v in given.items()})

    def step_states(self, states: Mapping[str, Sequence[Raw]], past: Mapping[str, Raw]) -> None:
        """The states of a step graph by their names, state or state.NAME, in order; and those before the first, state.1, ..."""
        tensors = {}
        for name, of in states.items():
            end, t = name[len("state"):], len(of)
            tensors[f"trajectory{end}"] = stack(of, (1, t, *of[0].shape), name)
            tensors[f"initial_condition{end}"] = of[0]
            self.rollout["num_realizations"], self.rollout["num_timesteps"] = 1, t
        tensors.update({"initial_condition" + name[len("state"):]: x for name, x in past.items()})
        self._write("trajectory.safetensors", tensors)

    def noise(self, batches: Sequence[Any]) -> None:
        """The standard draws before scaling, for each batch of realizations: [T-1,B,C,H,W], or such arrays by their kinds, in order, where noise draws several."""
        tensors = {}
        for k, b in enumerate(batches):
            named = {f"batch{k}.draw{i}.{kind}": v for i, (kind, v) in enumerate(b.items())} if isinstance(b, Mapping) else {f"batch{k}": b}
            tensors.update({name: raw(v, f"noise of {name}") for name, v in named.items()})
        self._write("noise.safetensors", tensors)

    def layers(self, outputs: Mapping[str, Any], step: int, realization: int, batch: int = 1) -> None:
        """Every module's output by its name in the step to state `step`."""
        name = "layers.safetensors" if step == 1 else f"layers.step{step:04d}.safetensors"
        self._write(name, {k: raw(v, k) for k, v in outputs.items()}, {"step": step, "realization": realization, "batch": batch})

    def close(self, incomplete: str = "") -> Path:
        """Writes SHA256SUMS, which refrun checks, and case.json, last: until then it says that the recording did not end."""
        what = {"step": self.graph} if self.graph else {"operator": self.operator}
        doc: Dict[str, Any] = {"version": 1, **what, "rollout": self.rollout, **self.info, "sha256": self.hashes}
        if incomplete:
            doc["incomplete"] = incomplete
        text = (json.dumps(doc, indent=1) + "\n").encode()
        sums = {**self.hashes, "case.json": hashlib.sha256(text).hexdigest()}
        lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
        for name, data in (("SHA256SUMS", lines.encode()), ("case.json", text)):
            replace(self.path / name, [data])
        return self.path


def alike(states: Sequence[Raw]) -> List[Raw]:
    """States of several types in one that holds them all: the last one's, or float32 or wider."""
    if all(s.dtype == states[0].dtype for s in states):
        return list(states)
    numbers = [_float64(s) for s in states]
    last = states[-1].dtype
    kept = [_store(a, last) for a in numbers]
    if not all(np.array_equal(_float64(k), a, equal_nan=True) for k, a in zip(kept, numbers)):
        wide = "F64" if any(s.dtype == "F64" for s in states) else "F32"
        kept = [_store(a, wide) for a in numbers]
    return kept


def _float64(r: Raw) -> np.ndarray:
    if r.dtype == "BF16":
        a = (np.frombuffer(r.data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        a = np.frombuffer(r.data, {"F16": "<f2", "F32": "<f4", "F64": "<f8"}[r.dtype])
    return a.astype(np.float64).reshape(r.shape)


def _store(a: np.ndarray, dtype: str) -> Raw:
    """The numbers in a type that holds them; of others, bfloat16 has those nearer to zero."""
    with np.errstate(over="ignore"):
        if dtype == "BF16":
            stored = (a.astype("<f4").view("<u4") >> 16).astype("<u2")
        else:
            stored = a.astype({"F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype])
    return Raw(dtype, a.shape, stored.tobytes())


def _as_float32(name: str, r: Raw) -> Raw:
    a = _float64(r).astype("<f4")
    if r.dtype == "F64" and not np.array_equal(a.astype("<f8"), _float64(r), equal_nan=True):
        raise CaseError(f"{name}: float64 numbers that float32 does not hold: want float32 weights")
    return Raw("F32", r.shape, a.tobytes())
