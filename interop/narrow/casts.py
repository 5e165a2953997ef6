"""How ml_dtypes and PyTorch cast float32 numbers to formats of 8 bits and fewer, for all of them.

    python interop/narrow/casts.py > fp16/testdata/casts.json
    python interop/narrow/casts.py --hard FILE --seed 2    # hard numbers with their codes, for -fp16.casts

A cast goes up with the magnitude of its input, so that the bits at which its code changes say all of it. They
are found by bisection, and held to random numbers. Casts of float16 and bfloat16 numbers must be those of the same
float32 numbers: all 65,536 of each are tried.
"""
import argparse
import json
import sys

import ml_dtypes
import numpy as np
import torch

TYPES = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e3m4",
         "float6_e3m2fn", "float6_e2m3fn", "float4_e2m1fn", "float8_e8m0fnu")
INFINITE = 0x7F800000


def casts(name):
    """The casts to a type, of numpy and torch arrays, by who makes them."""
    made = {"ml_dtypes": lambda x: np.asarray(x).astype(getattr(ml_dtypes, name)).view(np.uint8)}
    to = getattr(torch, name, None)
    if to is not None:
        def cast(x):
            t = torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) if x.dtype == ml_dtypes.bfloat16 else torch.from_numpy(x)
            return t.to(to).view(torch.uint8).numpy()

        made["torch"] = cast
    return made


def steps(cast, sign):
    """The first bits of each code, up to infinity, and the codes."""
    def codes(bits):
        return cast((np.asarray(bits, dtype=np.uint32) | np.uint32(sign)).view(np.float32))

    found = [[0, int(codes([0])[0])]]
    while True:
        low, code = found[-1]
        # The next change: codes may come back (NaN, for one), but not within one binade.
        edges = np.unique(np.append(np.arange(low, INFINITE, 1 << 19, dtype=np.uint64), [low + 1, low + 2, INFINITE])).astype(np.uint32)
        edges = edges[(edges > low) & (edges <= INFINITE)]
        other = np.nonzero(codes(edges) != code)[0]
        if len(other) == 0:
            return found
        high = int(edges[other[0]])
        low = int(edges[other[0] - 1]) if other[0] else low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if codes([middle])[0] == code else (low, middle)
        found.append([high, int(codes([high])[0])])


def check(cast, table, sign, rng):
    """Holds a table to a million random numbers."""
    bits = rng.integers(0, INFINITE + 1, 1 << 20, dtype=np.uint32)
    starts, codes = np.array([b for b, _ in table]), np.array([c for _, c in table])
    want = codes[np.searchsorted(starts, bits, side="right") - 1]
    assert (cast((bits | np.uint32(sign)).view(np.float32)) == want).all()


def check_halves(cast):
    """Casts of the formats of 16 bits are those of the same float32 numbers."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    for half in (np.float16, ml_dtypes.bfloat16):
        x = bits.view(half)
        assert (cast(x) == cast(x.astype(np.float32))).all(), half


def hard(seed):
    """Numbers that tell casts apart: each number and tie of each type, their neighbours, random bits and specials."""
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 1 << 32, 30000, dtype=np.uint64).astype(np.uint32).view(np.float32)]
    for name in TYPES:
        to = getattr(ml_dtypes, name)
        v = np.unique(np.arange(1 << ml_dtypes.finfo(to).bits, dtype=np.uint8).view(to).astype(np.float64))
        v = v[np.isfinite(v)]
        v = np.concatenate([v, (v[1:] + v[:-1]) / 2, v[[0, -1]] * 1.0625]).astype(np.float32)
        parts += [v, np.nextafter(v, np.float32(np.inf)), np.nextafter(v, np.float32(-np.inf))]
    x = np.concatenate(parts + [np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38, 1e-45], np.float32)])
    return rng.permutation(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hard")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    if a.hard:
        from safetensors.numpy import save_file

        x = hard(a.seed)
        tensors = {f"{who}.{name}": cast(x) for name in TYPES for who, cast in casts(name).items()}
        save_file({"input": x, **tensors}, a.hard)
        return
    rng = np.random.default_rng(a.seed)
    out = {"ml_dtypes": ml_dtypes.__version__, "torch": torch.__version__, "casts": {}}
    for name in TYPES:
        for who, cast in casts(name).items():
            row = out["casts"][f"{who}.{name}"] = {}
            for side, sign in (("positive", 0), ("negative", 1 << 31)):
                row[side] = steps(cast, sign)
                check(cast, row[side], sign, rng)
                row[side + "_nan"] = int(cast(np.array([0x7FC00000 | sign], np.uint32).view(np.float32))[0])
            check_halves(cast)
    lines = ",\n".join(f'  {json.dumps(k)}: {json.dumps(v, separators=(",", ":"))}' for k, v in out.pop("casts").items())
    sys.stdout.write(json.dumps(out)[:-1] + ', "casts": {\n' + lines + "\n}}\n")


if __name__ == "__main__":
    main()
