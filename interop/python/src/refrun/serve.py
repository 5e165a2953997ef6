"""A refrun process that answers on a pipe, for as long as somebody holds it."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from typing import Any, Dict, Mapping, Optional, Tuple

import numpy as np

from .binary import binary
from .case import CaseError, Raw

_BYTES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
_CODES = {np.dtype(v): k for k, v in _BYTES.items() if k != "BF16"}


class ServerError(RuntimeError):
    """The process ended where an answer was due."""


class View:
    """An array's memory with the type that a message says: no copy is made of it."""

    def __init__(self, dtype: str, array: np.ndarray):
        self.dtype, self.array = dtype, np.ascontiguousarray(array).reshape(array.shape)  # one number has no axes


def view(value: Any, name: str) -> View:
    """The memory of a numpy array or of a torch tensor on the CPU; of others a copy."""
    if type(value).__module__.split(".")[0] == "torch":
        import torch

        t = value.detach().cpu().contiguous()
        if t.dtype == torch.bfloat16:
            return View("BF16", t.view(torch.int16).numpy().view(np.uint16))
        value = t.numpy()
    a = np.asarray(value)
    if a.dtype.name == "bfloat16":
        return View("BF16", a.view(np.uint16))
    if a.dtype not in _CODES:
        raise CaseError(f"{name}: dtype {a.dtype}: want float32, float16, bfloat16 or float64")
    return View(_CODES[a.dtype], a)


class Server:
    """One `refrun serve`. A thread at a time asks; the process dies with this one."""

    def __init__(self, threads: Optional[int] = None, isa: Optional[str] = None):
        command = [binary(), "serve"]
        for flag, value in (("threads", threads), ("isa", isa)):
            if value is not None:
                command += ["--" + flag, str(value)]
        self.lock, self.owner = threading.Lock(), os.getpid()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        _widen(self.process.stdin), _widen(self.process.stdout)

    def ask(self, said: Mapping[str, str], tensors: Mapping[str, View]) -> Tuple[Dict[str, str], Dict[str, Raw]]:
        """Sends a message and returns what the answer says and holds. What is refused is a CaseError."""
        with self.lock:
            try:
                self._send(said, tensors)
                said, out = self._receive()
            except BaseException as e:  # an answer left in the pipe would be taken for the next one
                if isinstance(e, OSError):
                    e = ServerError(f"refrun serve ended: {self._last_words()}")
                self.close()
                raise e from None
        if "error" in said:
            raise CaseError(said["error"])
        return said, out

    def _send(self, said: Mapping[str, str], tensors: Mapping[str, View]) -> None:
        header: Dict[str, Any] = {"__metadata__": dict(said)}
        at = 0
        for name, v in tensors.items():
            header[name] = {"dtype": v.dtype, "shape": v.array.shape, "data_offsets": [at, at + v.array.nbytes]}
            at += v.array.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self._write(struct.pack("<QQ", 8 + len(text) + at, len(text)) + text)
        for v in tensors.values():
            if v.array.nbytes:
                self._write(memoryview(v.array.reshape(-1).view(np.uint8)))

    def _write(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view):]  # type: ignore[union-attr]

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            n = self.process.stdout.readinto(view)  # type: ignore[union-attr]
            if not n:
                raise OSError("end of the answers")
            view = view[n:]
        return data

    def _receive(self) -> Tuple[Dict[str, str], Dict[str, Raw]]:
        size, head = struct.unpack("<QQ", self._read(16))
        header = json.loads(self._read(head))
        data = memoryview(self._read(size - 8 - head))
        said = header.pop("__metadata__", {})
        return said, {k: Raw(v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in header.items()}

    def _last_words(self) -> str:
        self.process.kill()
        text = self.process.stderr.read() if self.process.stderr else b""
        return text.decode(errors="replace").strip()[:300] or f"exit code {self.process.wait()}"

    def close(self) -> None:
        """Ends the process. In a child made by fork only the child's ends of the pipes are closed."""
        if os.getpid() == self.owner:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # at the end of the interpreter
            pass


def _widen(pipe: Any) -> None:
    """Lets a whole state into a pipe at once, where the system can. Linux's hold 64 KB: a process would wake the other for each."""
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(pipe, 1031, 1 << 19)  # F_SETPIPE_SZ, which Python names from 3.10 on
        except OSError:  # all pipes of a user may have 64 MB by default
            pass


def array(r: Raw) -> np.ndarray:
    """An answer's array; bfloat16, which numpy lacks, as float32, which has the same numbers."""
    a = np.frombuffer(r.data, _BYTES[r.dtype]).reshape(r.shape)
    return (a.astype(np.uint32) << 16).view(np.float32) if r.dtype == "BF16" else a


def tensor(r: Raw, device: Any) -> Any:
    """An answer's array as a torch tensor."""
    import torch

    a = np.frombuffer(r.data, _BYTES[r.dtype]).reshape(r.shape)
    if r.dtype == "BF16":
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(a).to(device)
