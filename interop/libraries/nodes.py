"""Judges nodes of ONNX, with their weights, as ONNX Runtime and OpenVINO compute them, and the same with a fault.

    python interop/libraries/nodes.py [--library onnxruntime openvino] [--dtype float32 float16] [--kind normal ...]
        [--only "conv 3x3" ...] [--seed 0] [--faults] [--results FILE]

The first input is of the kind asked for, weights are normal numbers. See sweep.py.
"""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from refrun.binary import binary

import report
from inputs import draw
from libraries import in_onnxruntime, in_openvino

LIBRARIES = {"onnxruntime": in_onnxruntime, "openvino": in_openvino}
NODES = {}  # name: operation, inputs of a generator and the kind of the first, attributes, how many outputs


class Makes:
    """Numbers for a node: x is its first input, w(...) weights."""

    def __init__(self, kind, seed):
        self.kind, self.g, self.rng = kind, torch.Generator().manual_seed(seed), np.random.default_rng(seed)

    def x(self, *shape):
        return draw(self.kind if self.kind not in ("ones", "primes", "long") else "normal", self.g, shape).numpy()

    def w(self, *shape, by=1.0):
        return (torch.randn(shape, generator=self.g) * by).numpy()

    def above(self, *shape):
        return (torch.rand(shape, generator=self.g) + 0.5).numpy()

    def below(self, n, *shape):
        return self.rng.integers(0, n, shape)


def node(name, op, inputs, outputs=1, **attributes):
    NODES[name] = op, inputs, attributes, outputs


def whole(*v):
    return np.array(v, np.int64)


for name, g, k, d, s, p in (("conv 3x3", 1, 3, 1, 1, 1), ("conv grouped", 4, 3, 1, 1, 1), ("conv depthwise dilated", 8, 3, 2, 1, 1), ("conv 1x1", 1, 1, 1, 1, 0),
                            ("conv 5x5 dilated", 1, 5, 2, 1, 4), ("conv 7x7 strided", 1, 7, 1, 2, 3)):
    node(name, "Conv", lambda m, g=g, k=k: [m.x(2, 8, 20, 22), m.w(16, 8 // g, k, k, by=0.2), m.w(16)], group=g, dilations=[d, d], strides=[s, s], pads=[p] * 4)
node("conv 1d", "Conv", lambda m: [m.x(2, 8, 64), m.w(12, 8, 5, by=0.2), m.w(12)], pads=[2, 2])
node("conv 3d", "Conv", lambda m: [m.x(1, 4, 8, 9, 10), m.w(6, 4, 3, 3, 3, by=0.2), m.w(6)], pads=[1] * 6)
node("conv without bias", "Conv", lambda m: [m.x(2, 32, 12, 12), m.w(32, 32, 3, 3, by=0.1)], pads=[1] * 4)
for s, p in ((1, 0), (2, 1), (3, 0)):
    node(f"conv transposed {s}", "ConvTranspose", lambda m: [m.x(2, 8, 10, 11), m.w(8, 6, 3, 3, by=0.2), m.w(6)], strides=[s, s], output_padding=[p, p], pads=[1] * 4)
node("conv transposed grouped", "ConvTranspose", lambda m: [m.x(2, 8, 10, 11), m.w(8, 3, 4, 4, by=0.2), m.w(6)], strides=[2, 2], pads=[1] * 4, group=2)
node("gemm", "Gemm", lambda m: [m.x(30, 64), m.w(40, 64), m.w(40)], transB=1)
node("gemm scaled", "Gemm", lambda m: [m.x(30, 64), m.w(40, 64), m.w(40)], transB=1, alpha=0.7, beta=0.3)
node("matmul batched", "MatMul", lambda m: [m.x(3, 20, 65), m.w(3, 65, 30)])
node("matmul long", "MatMul", lambda m: [m.x(8, 2048), m.w(2048, 8)])
node("einsum batched", "Einsum", lambda m: [m.x(4, 5, 30), m.w(4, 30, 6)], equation="bij,bjk->bik")
node("layer norm", "LayerNormalization", lambda m: [m.x(20, 96), m.w(96), m.w(96)], axis=-1)
node("rms norm", "RMSNormalization", lambda m: [m.x(20, 96), m.w(96)], axis=-1)
node("instance norm", "InstanceNormalization", lambda m: [m.x(2, 6, 14, 15), m.w(6), m.w(6)])
node("group norm", "GroupNormalization", lambda m: [m.x(2, 8, 14, 15), m.w(8), m.w(8)], num_groups=4)
node("batch norm", "BatchNormalization", lambda m: [m.x(2, 6, 14, 15), m.w(6), m.w(6), m.w(6), m.above(6)])
node("mean variance norm", "MeanVarianceNormalization", lambda m: [m.x(2, 3, 9, 9)], axes=[0, 2, 3])
node("l2 norm", "LpNormalization", lambda m: [m.x(20, 50)], axis=-1, p=2)
node("l1 norm", "LpNormalization", lambda m: [m.x(20, 50)], axis=-1, p=1)
node("local response norm", "LRN", lambda m: [m.x(2, 9, 15, 16)], size=5, alpha=1e-2)
node("average pool", "AveragePool", lambda m: [m.x(2, 4, 15, 16)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
node("average pool of zeros", "AveragePool", lambda m: [m.x(2, 4, 15, 16)], kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
node("average pool ceil", "AveragePool", lambda m: [m.x(2, 4, 15, 16)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
node("max pool", "MaxPool", lambda m: [m.x(2, 4, 15, 16)], kernel_shape=[3, 3], strides=[2, 2])
node("global average pool", "GlobalAveragePool", lambda m: [m.x(2, 4, 15, 16)])
node("global max pool", "GlobalMaxPool", lambda m: [m.x(2, 4, 15, 16)])
for p in (1, 2, 3):
    node(f"l{p} pool", "LpPool", lambda m: [m.x(2, 4, 15, 16)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, p=p)
node("global l2 pool", "GlobalLpPool", lambda m: [m.x(2, 4, 15, 16)])
for mode in ("linear", "cubic", "nearest"):
    for corners in ("half_pixel", "align_corners", "asymmetric"):
        node(f"resize {mode} {corners}", "Resize", lambda m: [m.x(1, 3, 13, 14), None, None, whole(1, 3, 29, 31)], mode=mode, coordinate_transformation_mode=corners)
node("resize antialias", "Resize", lambda m: [m.x(1, 3, 33, 34), None, None, whole(1, 3, 12, 13)], mode="linear", antialias=1)
node("resize by scales", "Resize", lambda m: [m.x(1, 3, 13, 14), None, np.array([1, 1, 2.5, 1.7], np.float32)], mode="linear")
node("cumulative sum", "CumSum", lambda m: [m.x(20, 200), np.array(1)])
node("cumulative sum reversed", "CumSum", lambda m: [m.x(20, 200), np.array(1)], reverse=1, exclusive=1)
for op in ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceSumSquare"):
    node(op, op, lambda m: [m.x(12, 30, 14), whole(1)])
node("ReduceLogSum", "ReduceLogSum", lambda m: [np.abs(m.x(12, 30, 14)) + np.float32(0.1), whole(1)])
node("ReduceProd", "ReduceProd", lambda m: [m.w(12, 30) * np.float32(0.1) + 1, whole(1)])
node("grid sample", "GridSample", lambda m: [m.x(2, 3, 12, 13), (m.w(2, 9, 10, 2, by=0.5)).clip(-1.2, 1.2)], mode="linear")
node("grid sample cubic", "GridSample", lambda m: [m.x(2, 3, 12, 13), m.w(2, 9, 10, 2, by=0.5)], mode="cubic")
node("top k", "TopK", lambda m: [m.x(10, 50), whole(5)], outputs=2)
for name, op, axis in (("softmax last", "Softmax", -1), ("softmax first", "Softmax", 0), ("log softmax last", "LogSoftmax", -1)):
    node(name, op, lambda m: [m.x(20, 100) * 5], axis=axis)
for d, direction in ((1, "forward"), (1, "reverse"), (2, "bidirectional")):
    weights = lambda m, gates, d=d: [m.x(7, 3, 12), m.w(d, gates * 16, 12, by=0.4), m.w(d, gates * 16, 16, by=0.4), m.w(d, 2 * gates * 16, by=0.2)]
    node(f"lstm {direction}", "LSTM", functools.partial(weights, gates=4), 3, hidden_size=16, direction=direction)
    node(f"gru {direction}", "GRU", functools.partial(weights, gates=3), 2, hidden_size=16, direction=direction, linear_before_reset=d - 1)
    node(f"rnn {direction}", "RNN", functools.partial(weights, gates=1), 2, hidden_size=16, direction=direction)
node("prelu", "PRelu", lambda m: [m.x(2, 6, 9, 9), m.w(6, 1, 1)])
node("quantize", "QuantizeLinear", lambda m: [m.x(20, 50), np.float32(0.031), np.uint8(128)])
node("quantize by channel", "QuantizeLinear", lambda m: [m.x(20, 50), m.above(50) * np.float32(0.03), np.zeros(50, np.int8)], axis=1)
node("quantize dynamically", "DynamicQuantizeLinear", lambda m: [m.x(20, 50)], outputs=3)
node("dequantize", "DequantizeLinear", lambda m: [m.below(256, 20, 50).astype(np.uint8), np.float32(0.031), np.uint8(120)])
node("determinant", "Det", lambda m: [m.x(5, 4, 4)])
node("scatter added", "ScatterElements", lambda m: [m.x(6, 5), m.below(6, 6, 5), m.w(6, 5)], axis=0, reduction="add")
node("attention", "Attention", lambda m: [m.x(2, 4, 20, 16), m.w(2, 4, 20, 16), m.w(2, 4, 20, 16)])
node("attention causal", "Attention", lambda m: [m.x(2, 4, 20, 16), m.w(2, 4, 20, 16), m.w(2, 4, 20, 16)], is_causal=1)
node("dft", "DFT", lambda m: [m.x(2, 40, 1), None, np.array(1)])
node("remainder of whole numbers", "Mod", lambda m: [m.below(50, 6, 5) - 25, m.below(8, 6, 5) + 1])
node("clip", "Clip", lambda m: [m.x(20, 30), np.float32(-0.5), np.float32(0.7)])
node("swish", "Swish", lambda m: [m.x(20, 50) * 3], alpha=1.3)
node("thresholded relu", "ThresholdedRelu", lambda m: [m.x(20, 50) * 3], alpha=1.3)
node("shrink", "Shrink", lambda m: [m.x(20, 50) * 3], lambd=0.5, bias=0.2)
for op in ("Sum", "Mean", "Max"):
    node(f"{op} of three", op, lambda m: [m.x(20, 50), m.w(20, 50), m.w(20, 50)])
node("affine grid", "AffineGrid", lambda m: [m.x(2, 2, 3), whole(2, 3, 9, 10)], align_corners=0)
node("col2im", "Col2Im", lambda m: [m.x(1, 12, 20), whole(5, 6), whole(2, 2)])
node("nll loss", "NegativeLogLikelihoodLoss", lambda m: [m.x(6, 5), m.below(5, 6)])
node("cross entropy loss", "SoftmaxCrossEntropyLoss", lambda m: [m.x(6, 5), m.below(5, 6)])

FED = ("MatMul", "Einsum", "Mod", "Sum", "Mean", "Max", "GridSample", "Attention")  # operations all of whose inputs are fed
KEPT = ("Resize",)  # whose other inputs stay in float32


def model(name, dtype, kind, seed):
    """A node as models of the newest versions of ONNX that have it, with what it is fed and its outputs' names."""
    op, inputs, attributes, count = NODES[name]
    given = {f"i{k}": np.asarray(v) for k, v in enumerate(inputs(Makes(kind, seed))) if v is not None}
    for k, v in given.items():
        if dtype == "float16" and v.dtype == np.float32 and (k == "i0" or op not in KEPT):
            given[k] = v.astype(np.float16)
    fed = {k: v for n, (k, v) in enumerate(given.items()) if n == 0 or op in FED}
    names = [f"i{k}" if f"i{k}" in given else "" for k in range(1 + max(int(k[1:]) for k in given))]
    outputs = [f"o{k}" for k in range(count)]
    kinds = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in fed.items()}
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, **attributes)], name, [helper.make_tensor_value_info(k, kinds[k], v.shape) for k, v in fed.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs], [numpy_helper.from_array(v, k) for k, v in given.items() if k not in fed])
    for version in (24, 22, 18):
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
        try:
            yield onnx.shape_inference.infer_shapes(m, strict_mode=True).SerializeToString(), fed, outputs
        except onnx.shape_inference.InferenceError:
            pass


def ask(folder, outputs):
    """The verdict about what a library returned of the model and its input in a folder, and what is said of it."""
    np.savez(folder / "out.npz", **outputs)
    files = ("--onnx", folder / "model.onnx", "--input", folder / "in.npz", "--output", folder / "out.npz")
    done = subprocess.run([binary(), "check", *files, "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        return "NOT JUDGED", done.stderr.strip()
    said = json.loads(done.stdout)
    return said["verdict"], f"{said.get('reason', '')} | {said.get('contract', '')}"


def sweep(a, folder):
    for name in a.only:
        for library in a.library:
            for dtype in a.dtype:
                for kind in a.kind:
                    row, returned, error = dict(name=name, library=library, dtype=dtype, kind=kind), None, "no version of ONNX takes it"
                    for data, fed, names in model(name, dtype, kind, a.seed):
                        try:
                            returned = LIBRARIES[library](data)(fed)
                            break
                        except Exception as e:  # each library has its own
                            error = e
                    if returned is None:
                        yield dict(row, verdict="NOT RUN", says=str(error))
                        continue
                    (folder / "model.onnx").write_bytes(data)
                    np.savez(folder / "in.npz", **fed)

                    def judge(first):
                        return ask(folder, dict(zip(names, [first.numpy(), *returned[1:]])))

                    yield from report.judged(row, torch.from_numpy(np.array(returned[0])), judge, a.faults)


if __name__ == "__main__":
    a = report.arguments(__doc__, NODES, LIBRARIES)
    a.dtype = [d for d in a.dtype if d != "bfloat16"]
    with tempfile.TemporaryDirectory() as folder:
        report.run(sweep(a, Path(folder)), a.results)
