"""Records what ONNX Runtime returns of a network of sigmoids, right and with a fault, for TestONNXRuntimeSigmoid:

    python sigmoid.py .
"""

import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def model(r, gate):
    weights = {f"w{k}": r.normal(size=(16, 16), scale=0.6).astype(np.float32) for k in range(3)}
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"]), helper.make_node("Sigmoid", ["a"], ["b"]), helper.make_node("MatMul", ["b", "w1"], ["c"]),
             helper.make_node("LayerNormalization", ["c", "scale"], ["d"]), helper.make_node(gate, ["d"], ["e"]), helper.make_node("Mul", ["d", "e"], ["f"]),
             helper.make_node("MatMul", ["f", "w2"], ["g"]), helper.make_node("Sigmoid", ["g"], ["y"])]
    weights["scale"] = np.linspace(0.5, 8, 16).astype(np.float32)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [32, 16]) for n in "xy")
    graph = helper.make_graph(nodes, "sigmoids", [x], [y], [numpy_helper.from_array(v, k) for k, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(folder):
    x = np.random.default_rng(1).normal(size=(32, 16), scale=2).astype(np.float32)
    numbers = {"x": x}
    for kind, gate in (("right", "Sigmoid"), ("wrong", "HardSigmoid")):
        m = model(np.random.default_rng(0), gate)
        if kind == "right":
            onnx.save(m, f"{folder}/sigmoid.onnx")
        numbers[kind], = onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    numbers["coarse"] = numbers["right"].astype(np.float16).astype(np.float32)
    np.savez(f"{folder}/sigmoid.npz", **numbers)


if __name__ == "__main__":
    main(sys.argv[1])
