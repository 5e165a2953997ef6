"""Right and wrong quantizers in PyTorch, judged by refrun: counts, and the names that faults get.

    python interop/narrow/kernels.py --seeds 3

The quantizers here are written apart from refrun's: blocks by reshaping, powers of 2 by frexp, casts by PyTorch and ml_dtypes.
Each can have one of the twelve faults of quantizers. A fault that changes nothing on an input is not counted.
"""
import argparse
import collections
import math

import ml_dtypes
import numpy as np
import torch

import refrun

LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "e3m2": 28.0, "e2m3": 7.5, "e2m1": 6.0}
TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn}
MANTISSA = {"e4m3": 3, "e5m2": 2, "e3m2": 2, "e2m3": 3, "e2m1": 1}
# The row of refrun's table that each fault should get.
NAMES = {"rule": "scale-rule", "other_block": "scale-of-other-block", "transposed": "scales-transposed", "signed": "amax-signed", "overflow": "not-saturated",
         "nibbles": "nibbles-swapped", "global_missing": "global-scale-missing", "global_twice": "global-scale-twice", "no_zero": "zero-point-ignored",
         "sold": "other-elements", "axis": "other-axis", "padding": "padding-counted", "truncated": "truncated"}
OTHER = {"e4m3": "e5m2", "e5m2": "e4m3", "e3m2": "e2m3", "e2m3": "e3m2"}
RULES = ("floor", "ceil", "even", "rceil")


def codes(q, kind, fault):
    """Numbers over their scales as codes."""
    top = LARGEST[kind]
    if fault == "sold":
        kind = OTHER[kind]
    if fault != "overflow":
        q = q.clamp(-top, top)
    elif kind not in ("e4m3", "e5m2"):
        half = 2.0 ** (math.floor(math.log2(top)) - MANTISSA[kind] - 1)
        q = torch.where(q.abs() >= top + half, torch.zeros(()), q)  # the carry leaves the byte
    if fault == "truncated":
        ulp = torch.exp2(torch.floor(torch.log2(q.abs().clamp(min=1e-30))).clamp(min=math.log2(float(ml_dtypes.finfo(TYPES[kind]).smallest_normal))) - MANTISSA[kind])
        q = torch.trunc(q / ulp) * ulp
    with np.errstate(all="ignore"):
        return torch.from_numpy(q.numpy().astype(TYPES[kind]).view(np.uint8).copy())


def exponent(amax, kind, rule):
    """The exponent of MX's scale."""
    e = math.floor(math.log2(LARGEST[kind]))
    f, n = torch.frexp(amax)
    if rule == "even":
        f, n = torch.frexp(torch.ldexp(torch.floor(f * 2 ** (MANTISSA[kind] + 1) + 0.5), n))
        return n - 1 - (MANTISSA[kind] + 1) - e
    if rule == "rceil":
        f, n = torch.frexp(amax / LARGEST[kind])
        return torch.where(f == 0.5, n - 1, n)
    return n - 1 - e + (0 if rule == "floor" else (f > 0.5).int())


def amaxes(blocks, fault):
    return (blocks.amax(-1).clamp(min=0) if fault == "signed" else blocks.abs().amax(-1))


def laid(scale, fault):
    """Scales as they are stored."""
    return scale.t().contiguous().reshape(scale.shape) if fault == "transposed" else scale


def used(scale, fault):
    """Scales as elements have them."""
    return scale.roll(1) if fault == "other_block" else scale


def pack(c, fault):
    a, b = c[..., ::2], c[..., 1::2]
    return a << 4 | b if fault == "nibbles" else b << 4 | a


def mx(x, kind, rule, fault=None):
    y = x.t().contiguous() if fault == "axis" else x
    if fault == "rule":
        rule = RULES[(RULES.index(rule) + 1) % 4]
    blocks = y.reshape(y.shape[0], -1, 32)
    e = exponent(amaxes(blocks, fault), kind, rule).clamp(-127, 127)
    c = codes(blocks * torch.exp2(-used(e, fault).float())[..., None], kind, fault).reshape(y.shape)
    scale = (e + 127).to(torch.uint8)
    if fault == "axis":
        c, scale = c.t().contiguous(), scale.t().contiguous().reshape(x.shape[0], -1)
    return (pack(c, fault) if kind == "e2m1" else c), laid(scale, fault)


def nvfp4(x, g, fault=None):
    blocks = x.reshape(x.shape[0], -1, 16)
    s = amaxes(blocks, fault) / 6
    times = {"global_missing": 0, "global_twice": 2}.get(fault, 1)
    s = s if g is None else s / g ** times
    scale = s.clamp(2.0 ** -9, 448)
    scale = (torch.from_numpy(np.nextafter((scale * 16).numpy(), 0)) / 16 if fault == "rule" else scale).to(torch.float8_e4m3fn)
    total = used(scale.float(), fault) * (1 if g is None else g ** times)
    return pack(codes(blocks / total[..., None], "e2m1", fault).reshape(x.shape), fault), laid(scale, fault)


def spread(scale, shape):
    m, n = (-(-shape[a] // scale.shape[a]) for a in (0, 1))
    return scale.repeat_interleave(m, 0)[: shape[0]].repeat_interleave(n, 1)[:, : shape[1]]


def fp8(x, kind, block, fault=None, way="division"):
    """float32 scales; block is a number of rows and columns."""
    m, n = block if fault != "axis" else block[::-1]
    rows, columns = -(-x.shape[0] // m), -(-x.shape[1] // n)
    padded = torch.zeros(rows * m, columns * n)
    padded[: x.shape[0], : x.shape[1]] = x
    if fault == "padding":  # what follows in memory
        over = columns * n - x.shape[1]
        flat = torch.cat([x.flatten(), torch.zeros(over)])
        for r in range(x.shape[0]):
            padded[r, x.shape[1]:] = flat[(r + 1) * x.shape[1]:][:over]
    blocks = padded.reshape(rows, m, columns, n).movedim(2, 1).flatten(2)
    scale = amaxes(blocks, fault) / LARGEST[kind]
    by = spread(used(scale, fault), (rows * m, columns * n))[: x.shape[0], : x.shape[1]]
    q = x / by if way == "division" else x * (1 / by)
    if fault == "axis":
        scale = scale.reshape(-(-x.shape[0] // n), -1)
    return codes(q, kind, fault), laid(scale, fault)


def whole(x, bits, scale, zero, fault=None, way="division"):
    """Whole numbers with a zero point for each row."""
    q = x / scale if way == "division" else x * (1 / scale)
    q = torch.trunc(q) if fault == "truncated" else torch.round(q)
    q = q + (0 if fault == "no_zero" else zero)
    if fault == "overflow":
        return (q.long() & (2 ** bits - 1)).to(torch.uint8)
    return q.clamp(0, 2 ** bits - 1).to(torch.uint8)


def scenes(seed):
    """What is asked, with the right forms and the faults that the kind can have."""
    torch.manual_seed(seed)
    x = torch.randn(64, 64) * torch.exp(1.5 * torch.randn(64, 1)) * torch.where(torch.rand(64, 1) < 0.2, -1, 1)
    x[3] = -x[3].abs()
    x[10:20:3] *= 448 / 256  # blocks whose largest overflows by floor
    common = ["other_block", "transposed", "signed", "truncated"]
    for kind in LARGEST:
        faults = [*common, "rule", "overflow", "axis", *(["nibbles"] if kind == "e2m1" else ["sold"])]
        form = "mxfp4" if kind == "e2m1" else f"mxfp{8 if kind in ('e4m3', 'e5m2') else 6}_{kind}"
        for rule in RULES:
            yield {"format": form, "rule": rule}, x, {}, lambda f=None, k=kind, r=rule: mx(x, k, r, f), [None], faults
    for g in (None, x.abs().amax() / (448 * 6)):
        given = {} if g is None else {"global": g.reshape(1)}
        faults = [*common, "nibbles", *(["global_missing", "global_twice"] if given else [])]
        yield {"format": "nvfp4"}, x, given, lambda f=None, g=g: nvfp4(x, g, f), [None], faults
    y = x[:, :40].contiguous()
    for kind in ("e4m3", "e5m2"):
        for block, name in (((1, 16), "1x16"), ((16, 16), "16x16"), ((1, 40), "row"), ((64, 40), "tensor")):
            faults = ["signed", "truncated", "sold", *(["other_block"] if name != "tensor" else []), *(["transposed", "padding"] if "x" in name else [])]
            yield {"format": "fp8_" + kind, "block": name}, y, {}, lambda f=None, k=kind, b=block, w="division": fp8(y, k, b, f, w), ["division", "product"], faults
        z = x[:, :64].contiguous()
        yield {"format": "fp8_" + kind, "block": "1x16"}, z, {}, lambda f=None, k=kind, w="division": fp8(z, k, (1, 16), f, w), ["division"], ["axis"]
    for bits in (8, 4):
        scale, zero = 0.05 * torch.rand(64, 1) + 0.05, torch.randint(1, 9, (64, 1))
        given = {"scale": scale, "zero_point": zero}
        yield ({"format": f"uint{bits}", "rule": "given", "block": "row"}, x, given, lambda f=None, b=bits, s=scale, z=zero, w="division": whole(x, b, s, z, f, w),
               ["division", "product"], ["no_zero", "truncated", "overflow"])


def outputs(made):
    return made if isinstance(made, tuple) else (made,)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seeds", type=int, default=3)
    a = p.parse_args()
    right, wrong, names, nothing = collections.Counter(), collections.Counter(), collections.Counter(), 0
    for seed in range(a.seeds):
        for attributes, x, given, make, ways, faults in scenes(seed):
            for way in ways:
                good = make() if way is None else make(w=way)
                r = refrun.check_kernel("quantize", {"input": x, **given}, good, **attributes)
                right[r.verdict] += 1
                if r.verdict != "PASS":
                    print("right:", attributes, way, r)
            plain = make()
            for fault in faults:
                bad = make(fault)
                if all(torch.equal(b.view(torch.uint8), g.view(torch.uint8)) for b, g in zip(outputs(bad), outputs(plain))):
                    nothing += 1
                    continue
                r = refrun.check_kernel("quantize", {"input": x, **given}, bad, **attributes)
                wrong[r.verdict] += 1
                named = r.data.get("fault_id", "").removeprefix("quantize.").split(":")[0]
                ok = named == NAMES[fault] or (fault == "rule" and named == "truncated")
                names["named" if ok else "not named"] += 1
                if not ok or r.verdict != "FAIL":
                    print("wrong:", attributes, fault, r.verdict, named)
    print(f"right: {dict(right)}; wrong: {dict(wrong)}, {dict(names)}; faults that change nothing: {nothing}")


if __name__ == "__main__":
    main()
