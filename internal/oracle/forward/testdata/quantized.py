"""Records what ONNX Runtime on a CPU returns of a small convolutional network that it has quantized, with weights of 7
bits, right and with a fault, for TestONNXRuntimeQuantized:

    python -P quantized.py .
"""

import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


class Inputs(CalibrationDataReader):
    def __init__(self, r):
        self.of = iter([{"x": r.normal(size=(1, 3, 10, 10)).astype(np.float32)} for _ in range(8)])

    def get_next(self):
        return next(self.of, None)


def model(r):
    of = lambda scale, *shape: r.normal(size=shape, scale=scale).astype(np.float32)
    weights = {"w": of(0.3, 6, 3, 3, 3), "b": of(0.1, 6), "v": of(0.2, 8, 6, 3, 3), "c": of(0.1, 8)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["p"], pads=[1] * 4), helper.make_node("Relu", ["p"], ["q"]),
             helper.make_node("Conv", ["q", "v", "c"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    x, y = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 10, 10]), helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])
    graph = helper.make_graph(nodes, "quantized", [x], [y], [numpy_helper.from_array(v, k) for k, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def main(folder):
    r = np.random.default_rng(1)
    path = f"{folder}/quantized.onnx"
    with tempfile.TemporaryDirectory() as scratch:
        plain = os.path.join(scratch, "plain.onnx")
        onnx.save(model(r), plain)
        quantize_static(plain, path, Inputs(r), quant_format=QuantFormat.QDQ, per_channel=True, reduce_range=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    x = r.normal(size=(1, 3, 10, 10)).astype(np.float32)
    numbers = {"x": x}
    numbers["right"], = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    numbers["wrong"] = numbers["right"].copy()
    numbers["wrong"][0, 5, 3, 3] += 2 * np.diff(np.unique(numbers["right"])).min()  # two quanta
    np.savez(f"{folder}/quantized.npz", **numbers)


if __name__ == "__main__":
    main(sys.argv[1])
