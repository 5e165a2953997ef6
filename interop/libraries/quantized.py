"""Judges networks that ONNX Runtime has quantized to 8 bits, and the same with a fault.

    python interop/libraries/quantized.py [--library onnxruntime openvino] [--only images ...] [--seed 0] [--faults]
        [--results FILE]

Weights have 7 bits: without VNNI, products of uint8 and int8 numbers saturate at 16 bits on the way.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import report
from nodes import LIBRARIES, ask

rng = np.random.default_rng()
NETWORKS = {  # operations; weights' shapes and sizes; the input's shape; values that are outputs, of which the first gets the faults
    "images": (
        [("Conv", "x w1 b1", "a", dict(pads=[1] * 4)), ("Relu", "a", "b", {}), ("Conv", "b w2 b2", "c", dict(pads=[1] * 4, strides=[2, 2])),
         ("Add", "c c", "d", {}), ("Relu", "d", "e", {}), ("GlobalAveragePool", "e", "f", {}), ("Flatten", "f", "g", {}), ("Gemm", "g w3 b3", "y", {})],
        dict(w1=(0.3, 16, 3, 3, 3), b1=(0.1, 16), w2=(0.1, 16, 16, 3, 3), b2=(0.1, 16), w3=(0.3, 16, 10), b3=(1, 10)), (1, 3, 24, 24), ("e", "y"),
    ),
    "words": (
        [("MatMul", "x w1", "a", {}), ("Add", "a b1", "b", {}), ("Gelu", "b", "c", {}), ("MatMul", "c w2", "d", {}), ("Add", "d x", "e", {}),
         ("LayerNormalization", "e g1 b2", "f", dict(axis=-1)), ("Softmax", "f", "g", dict(axis=-1)), ("MatMul", "g w3", "y", {})],
        dict(w1=(0.2, 32, 64), b1=(0.1, 64), w2=(0.2, 64, 32), g1=(1, 32), b2=(1, 32), w3=(0.3, 32, 10)), (2, 12, 32), ("e", "y"),
    ),
}


def draw(size, *shape):
    return (rng.standard_normal(shape) * size).astype(np.float32)


class Images(CalibrationDataReader):
    def __init__(self, shape):
        self.left = iter([{"x": draw(1, *shape)} for _ in range(8)])

    def get_next(self):
        return next(self.left, None)


def network(name):
    nodes, weights, shape, outputs = NETWORKS[name]
    nodes = [helper.make_node(op, i.split(), [o], **a) for op, i, o, a in nodes]
    of = [[helper.make_tensor_value_info(k, TensorProto.FLOAT, s) for k, s in values] for values in ([("x", shape)], [(o, None) for o in outputs])]
    graph = helper.make_graph(nodes, name, *of, [numpy_helper.from_array(draw(*w), k) for k, w in weights.items()])
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))


def kinds(name, folder):
    """The network's file, quantized in each way."""
    onnx.save(network(name), folder / "float.onnx")
    common = dict(weight_type=QuantType.QInt8, reduce_range=True)
    for each in (False, True):
        by = " by channel" if each else ""
        for form in (QuantFormat.QDQ, QuantFormat.QOperator):
            quantize_static(folder / "float.onnx", folder / "model.onnx", Images(NETWORKS[name][2]), quant_format=form, per_channel=each,
                            activation_type=QuantType.QUInt8, **common)
            yield form.name + by
        quantize_dynamic(folder / "float.onnx", folder / "model.onnx", per_channel=each, **common)
        yield "dynamic" + by


def sweep(a, folder):
    global rng
    for name in a.only:
        rng = np.random.default_rng(a.seed)
        for kind in kinds(name, folder):
            x = draw(1, *NETWORKS[name][2])
            np.savez(folder / "in.npz", x=x)
            for library in a.library:
                row = dict(name=name, library=library, dtype="int8", kind=kind)
                try:
                    first, *others = LIBRARIES[library]((folder / "model.onnx").read_bytes())({"x": x})
                except Exception as e:
                    yield dict(row, verdict="NOT RUN", says=str(e))
                    continue

                def judge(y):
                    return ask(folder, dict(zip(NETWORKS[name][3], [y.numpy(), *others])))

                yield from report.judged(row, torch.from_numpy(np.array(first)), judge, False)
                wrong = np.array(first)
                wrong.reshape(-1)[np.abs(wrong).argmax()] *= 1.1
                for fault, y in (("one", wrong), ("all", first * np.float32(1.02))) if a.faults else ():
                    verdict, says = judge(torch.from_numpy(y))
                    yield dict(row, fault=fault, verdict=verdict, says=says)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", nargs="+", choices=LIBRARIES, default=["onnxruntime"])
    p.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), metavar="NAME")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--faults", action="store_true")
    p.add_argument("--results")
    a = p.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        report.run(sweep(a, Path(folder)), a.results)
