import numpy as np
from numpy.lib import format

def quarters(shape, dtype, order="C"):  # -1, -0.75, ... in row-major order
    a = (np.arange(np.prod(shape, dtype=int)) * 0.25 - 1).reshape(shape).astype(dtype)
    return np.asarray(a, order=order)

def save(name, a, version=None):
    with open(name + ".npy", "wb") as f:
        format.write_array(f, a, version)

for t in "<f8", "<f4", "<f2", ">f8", ">f4", ">f2":
    save("special_" + t.replace("<", "le_").replace(">", "be_"),
         np.array([0.0, -0.0, 1, -2.5, np.inf, -np.inf, np.nan, np.finfo(t).max, -np.finfo(t).tiny, np.finfo(t).smallest_subnormal], t))
for t in "i1", "u1", "<i2", "<u2", ">i2", "<i4", ">u4", "<i8", ">i8", "<u8":
    i = np.iinfo(t)
    save("integer_" + t.replace("<", "le_").replace(">", "be_"), np.array([[0, 1, 100], [i.min, i.min + 1, i.max // 2 + 1]], t))
for rank in 2, 3, 4, 5:
    save(f"fortran_{rank}", quarters((2, 3, 4, 3, 2)[:rank], "<f2", "F"))
for version in (1, 0), (2, 0), (3, 0):
    save(f"version_{version[0]}", quarters((3, 2), "<f4"), version)
save("scalar", np.array(0.75, "<f4"))
save("empty", np.zeros((3, 0, 2), "<f8"))
save("padding", np.zeros((1,) * 13 + (111,), "<f4"))
save("bfloat16", (np.array([1, -2.5, np.inf, 2.0**-133], "<f4").view("<u4") >> 16).astype("<u2"))
save("bool", np.array([True, False]))
save("complex", np.array([1j], "<c8"))
save("object", np.array([{}, None], object))
save("structured", np.zeros(2, [("x", "<f4"), ("y", "<i2", (2,))]))
save("text", np.array(["ab"]))
arrays = {"a": quarters((2, 3), "<f4"), "layer/b": quarters((3, 2), "<f2", "F"), "é": quarters((), "<f8")}
np.savez("stored.npz", **arrays)
np.savez_compressed("deflated.npz", **arrays)
