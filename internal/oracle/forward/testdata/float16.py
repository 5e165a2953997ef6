"""Records what ONNX Runtime on a CPU returns of a network in float16 with casts at its ends, which it evaluates in
float32, right and with a fault, for TestONNXRuntimeFloat16:

    python float16.py .
"""

import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def model(r, gate):
    half = {f"w{k}": r.normal(size=(16, 16), scale=0.4).astype(np.float16) for k in range(2)}
    nodes = [helper.make_node("Cast", ["x"], ["a"], to=TensorProto.FLOAT16), helper.make_node("MatMul", ["a", "w0"], ["b"]), helper.make_node(gate, ["b"], ["c"]),
             helper.make_node("MatMul", ["c", "w1"], ["d"]), helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT)]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [32, 16]) for n in "xy")
    graph = helper.make_graph(nodes, "half", [x], [y], [numpy_helper.from_array(v, k) for k, v in half.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(folder):
    x = np.random.default_rng(1).normal(size=(32, 16)).astype(np.float32)
    numbers = {"x": x}
    for kind, gate in (("right", "Tanh"), ("wrong", "Softsign")):
        m = model(np.random.default_rng(0), gate)
        if kind == "right":
            onnx.save(m, f"{folder}/float16.onnx")
        numbers[kind], = onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.savez(f"{folder}/float16.npz", **numbers)


if __name__ == "__main__":
    main(sys.argv[1])
