# Writes <name>.h5 with one dialect of HDF5: python make.py <name> <libver>.
# Element i of a dataset, in row-major order, is (37*i % 1009 - 500) / 8.
import sys
import h5py
import numpy as np

name, libver = sys.argv[1:]


def values(shape, dtype):
    i = np.arange(np.prod(shape, dtype=int))
    return ((37 * i % 1009 - 500) / 8).reshape(shape).astype(dtype)


with h5py.File(name + ".h5", "w", libver=tuple(libver.split("-"))) as f:
    if name == "refused":
        f.create_dataset("grows", data=values((4,), "f4"), maxshape=(None,), chunks=(2,))
        f.create_dataset("grows2", data=values((4, 4), "f4"), maxshape=(None, None), chunks=(2, 2))
        f.create_dataset("lzf", data=values((4,), "f4"), chunks=(2,), compression="lzf")
        f.create_dataset("bytes", data=np.arange(4, dtype="u1"))
        f.create_dataset("unwritten", (4,), "f4")
        part = f.create_dataset("part", (1100,), "f2", chunks=(1,))
        part[1050:] = values((1100,), "f2")[1050:]
        for i in range(9):
            f.create_group(f"crowd/{i}")
        sys.exit()
    kw = dict(chunks=(2, 3), shuffle=True, compression="gzip", fletcher32=True)
    f.create_dataset("edges", data=values((5, 7), ">f4"), **kw)
    if name.startswith("edges"):
        sys.exit()
    kw = dict(chunks=(1, 1, 3, 2, 5, 5), compression="gzip", compression_opts=4)
    f.create_dataset("trajectories", data=values((1, 2, 3, 2, 5, 5), "f4"), **kw)
    f.create_dataset("metrics/energy", data=values((1, 2, 3), "f4"), chunks=(1, 1, 3), compression="gzip")
    f.create_dataset("half", data=values((3, 4), "f2"), chunks=(1, 4), fletcher32=True)
    f.create_dataset("double", data=values((4, 3), ">f8"))
    f.create_dataset("scalar", data=np.float32(-62.5))
    f.create_dataset("n", data=np.array([-7, 2**31 - 1], "i4"))
    a = f["metrics"].attrs
    a["policy"] = "convex"
    a["num_timesteps"] = 3
    a["clamp"] = [-1.5, 2.5]
    a["names"] = ["mean", "", "größe"]
    a["fixed"] = np.bytes_("none")
    a["padded"] = np.array(b"no", "S6")
    a["missing"] = h5py.Empty("f4")
