"""Writes random nodes of ONNX Runtime's own operations, and of others that onnx's suite has few of, with what ONNX Runtime
returns, as one archive like that of cases.py: `go test ./onnx -run Runtime -onnx.runtime FILE` runs it.

    python runtime.py OUT.zip [CASES OF EACH]

Signed weights have 7 bits: without VNNI ONNX Runtime's products of uint8 and int8 numbers saturate at 16 bits on the way.
"""

import json
import sys
import zipfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"
rng = np.random.default_rng(20)


def real(*shape, by=1.0):
    return (rng.standard_normal(shape) * by).astype(np.float32)


def quantized(*shape, signed=False):
    return rng.integers(-128, 128, shape).astype(np.int8) if signed else rng.integers(0, 256, shape).astype(np.uint8)


def weights(*shape):
    return rng.integers(-63, 64, shape).astype(np.int8)


def scale(*shape, by=0.05):
    return (rng.uniform(0.2, 1, shape) * by).astype(np.float32)


def zero(signed):
    return np.array(rng.integers(-10, 10), np.int8) if signed else np.array(rng.integers(100, 150), np.uint8)


def of(op, inputs, domain=MICROSOFT, outputs=("y",), **attributes):
    """A case: inputs by name, of which those whose names begin with a capital are constants, and None is none."""
    return op, domain, inputs, outputs, attributes


def integers(k):
    s = k % 2 == 1
    m, n, inner = (int(v) for v in rng.integers(1, 12, 3))
    image = quantized(1, 4, 6, 6, signed=s)
    each = k % 3 > 0  # scales for each channel
    pair = dict(a=quantized(3, 4, 5, signed=s), A_scale=scale(), A_zero=zero(s), b=quantized(4, 1, signed=s), B_scale=scale(), B_zero=zero(s))
    single = dict(a=quantized(2, 3, 5, 4, signed=s), A_scale=scale(), A_zero=zero(s), Y_scale=scale(), Y_zero=zero(s))
    unit = dict(single, Y_scale=np.float32(1 / 256), Y_zero=np.array(-128 if s else 0, np.int8 if s else np.uint8))
    yield of("MatMulInteger", dict(a=quantized(2, m, inner), b=weights(inner, n), A_zero=zero(False), B_zero=weights(n)), "")
    yield of("ConvInteger", dict(x=image.view(np.uint8), W=quantized(2, 4, 3, 3), X_zero=zero(False), W_zero=np.uint8(60)), "", pads=[1, 0, 1, 0])
    yield of("QLinearMatMul", dict(a=quantized(m, inner, signed=s), A_scale=scale(), A_zero=zero(s), b=weights(inner, n), B_scale=scale(),
                                   B_zero=np.int8(3), Y_scale=scale(by=0.5), Y_zero=zero(s)), "")
    yield of("QLinearConv", dict(x=image, X_scale=scale(), X_zero=zero(s), W=weights(6, 2, 3, 3), W_scale=scale(*([6] * each)),
                                 W_zero=np.zeros(6, np.int8) if each else np.int8(2), Y_scale=scale(by=0.2), Y_zero=zero(s),
                                 B=rng.integers(-500, 500, 6).astype(np.int32)), "", group=2, pads=[1, 1, 1, 0], strides=[1 + k % 2, 1])
    for op in ("QLinearAdd", "QLinearMul"):
        yield of(op, dict(pair, Y_scale=scale(by=0.1), Y_zero=zero(s)))
    yield of("QLinearSigmoid", unit)
    yield of("QLinearSoftmax", unit, opset=13, axis=-1)
    yield of("QLinearLeakyRelu", single, alpha=0.1)
    yield of("QLinearGlobalAveragePool", single, channels_last=0)
    yield of("QLinearAveragePool", single, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 0], count_include_pad=k // 2 % 2)
    yield of("QLinearConcat", dict(Y_scale=scale(), Y_zero=zero(s), a=quantized(2, 3, signed=s), A_scale=scale(), A_zero=zero(s),
                                   b=quantized(2, 4, signed=s), B_scale=scale(), B_zero=zero(s)), axis=1)
    yield of("MatMulIntegerToFloat", dict(a=quantized(m, inner), B=weights(inner, n), A_scale=np.float32(0.02), B_scale=scale(n),
                                          A_zero=zero(False), B_zero=np.zeros(n, np.int8), Bias=real(n)))
    yield of("DynamicQuantizeMatMul", dict(a=real(m, inner), B=weights(inner, n), B_scale=scale(), B_zero=np.int8(0), Bias=real(n)))


def recurrent(k):
    op = ("LSTM", "GRU", "RNN")[k % 3]
    gates, functions = {"LSTM": (4, 3), "GRU": (3, 2), "RNN": (1, 1)}[op]
    steps, batch, size, hidden = (int(v) for v in rng.integers(1, 6, 4))
    direction = ("forward", "reverse", "bidirectional")[k // 3 % 3]
    both = 1 + (direction == "bidirectional")
    inputs = dict(x=real(steps, batch, size), W=real(both, gates * hidden, size, by=0.5), R=real(both, gates * hidden, hidden, by=0.5),
                  B=real(both, 2 * gates * hidden, by=0.5), lens=rng.integers(1, steps + 1, batch).astype(np.int32), h=real(both, batch, hidden))
    attributes = dict(hidden_size=hidden, direction=direction)
    outputs = ("y", "yh")
    if op == "LSTM":
        inputs.update(c=real(both, batch, hidden), P=real(both, 3 * hidden))
        outputs += ("yc",)
        attributes.update(input_forget=k // 2 % 2)
    if op == "GRU":
        attributes.update(linear_before_reset=k // 2 % 2)
    if k % 4 == 0:
        attributes.update(clip=0.5)
    if k % 2:
        names = ("Tanh", "Sigmoid", "HardSigmoid", "Softsign", "Elu", "ScaledTanh", "LeakyRelu", "Affine")
        attributes.update(activations=list(rng.choice(names, functions * both)), activation_alpha=[0.3] * 6, activation_beta=[0.7] * 6)
    yield of(op, inputs, "", outputs, **attributes)
    h = hidden
    yield of("DynamicQuantizeLSTM", dict(x=real(1, batch, size), W=weights(1, size, 4 * h), R=weights(1, h, 4 * h), B=real(1, 8 * h), lens=None, h=None, c=None,
                                         p=None, W_scale=scale(1), W_zero=np.zeros(1, np.int8), R_scale=scale(1), R_zero=np.zeros(1, np.int8)),
             outputs=("y", "yh", "yc"), hidden_size=h)


GROUPS = (integers, recurrent)


def model(op, domain, inputs, outputs, attributes):
    """The model of a case, and what ONNX Runtime makes of it."""
    given = {n: np.asarray(v) for n, v in inputs.items() if v is not None and n[0].islower()}
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in inputs.items() if v is not None and not n[0].islower()]
    names = [n if v is not None else "" for n, v in inputs.items()]
    node = helper.make_node(op, names, outputs, name="node", domain=domain, **attributes)
    values = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()]
    graph = helper.make_graph([node], op, values, [onnx.ValueInfoProto(name=n) for n in outputs if n], constants)
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)], ir_version=9)
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, 4
    session = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
    made = session.run(None, given)
    for of, y in zip(graph.output, made):  # what ONNX Runtime infers
        of.CopyFrom(helper.make_tensor_value_info(of.name, helper.np_dtype_to_tensor_dtype(y.dtype), y.shape))
    m.graph.CopyFrom(graph)
    return m, list(given.values()), made


def main():
    path, times = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    rows = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:

        def write(name, data):
            info = zipfile.ZipInfo(name)  # without the time: equal cases are equal archives
            info.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(info, data)

        for group in GROUPS:
            for k in range(times * (5 if group is recurrent else 1)):
                for case in group(k):
                    m, given, made = model(*case)
                    name = f"{case[0]}:{len(rows)}"
                    ins, outs = [f"input_{i}" for i in range(len(given))], [f"output_{i}" for i in range(len(made))]
                    data = helper.make_graph([], "data", [], [], [numpy_helper.from_array(np.asarray(v), n) for v, n in zip(given + made, ins + outs)])
                    data.output.extend(helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in data.initializer)
                    rows.append({"name": name, "rtol": 1e-4 if group is recurrent else 1e-5, "atol": 2e-6, "inputs": ins, "outputs": outs})
                    write(name + "/model.onnx", m.SerializeToString())
                    write(name + "/data.onnx", helper.make_model(data, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
        write("index.json", json.dumps({"onnxruntime": ort.__version__, "cases": rows}, indent=1).encode())
    print(f"{path}: {len(rows)} cases of ONNX Runtime {ort.__version__}")


main()
