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
    yield of("QGemm", dict(a=quantized(m, inner, signed=s), A_scale=scale(), A_zero=zero(s), b=weights(n, inner), B_scale=scale(*([n] * each)),
                           B_zero=np.zeros(n, np.int8) if each else np.int8(3), C=rng.integers(-500, 500, n).astype(np.int32), Y_scale=scale(by=0.5),
                           Y_zero=zero(s)), transB=1, alpha=1.0 + k % 2)
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


def fused(k):
    b, s, d = (int(v) for v in rng.integers(1, 5, 3))
    d *= 8
    x = real(b, s, d)
    yield of("FusedMatMul", dict(a=real(2, 3, 4), b=real(2, 5, 4) if k % 2 else real(5, 4)), transB=1, alpha=0.3)
    yield of("FusedMatMul", dict(a=real(3, 4), b=real(3, 5)), transA=1, alpha=0.7)
    yield of("Gelu", dict(a=real(3, 4, by=3)))
    yield of("FusedMatMul", dict(a=real(3, 2, 4), b=real(2, 4, 5)), transBatchA=1)
    name, parameters = (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("HardSigmoid", [0.3, 0.4]), ("Clip", [-0.5, 0.5]))[k % 6]
    image = dict(x=real(1, 4, 6, 6), W=real(6, 2, 3, 3), B=real(6))
    yield of("FusedConv", image, group=2, pads=[1, 1, 1, 1], activation=name, **({"activation_params": parameters} if parameters else {}))
    if name == "Relu":
        yield of("FusedConv", dict(x=real(1, 4, 6, 6), W=real(6, 4, 3, 3), B=real(6), z=real(1, 6, 4, 4)), activation=name)
        yield of("FusedGemm", dict(a=real(3, 4), B=real(4, 5), C=real(5)), activation="Relu", alpha=0.5)
    norm = dict(x=x, skip=x * 0.5, Gamma=real(d))
    yield of("SkipLayerNormalization", dict(norm, Beta=real(d), Bias=real(d)), outputs=("y", "", "", "sum"), epsilon=1e-5)
    yield of("SkipSimplifiedLayerNormalization", dict(norm, Bias=real(d)), outputs=("y", "", "", "sum"), epsilon=1e-5)
    yield of("SimplifiedLayerNormalization", dict(x=x, Gamma=real(d)), "", axis=-1, epsilon=1e-5)
    yield of("BiasGelu", dict(x=x, Bias=real(d)))
    yield of("FastGelu", dict(x=x, Bias=real(d)))
    yield of("QuickGelu", dict(x=x), alpha=1.702)
    table = dict(Words=real(9, d), Positions=real(6, d), Segments=real(2, d), Gamma=real(d), Beta=real(d))
    ids = lambda most: rng.integers(0, most, (b, s)).astype(np.int32)
    yield of("EmbedLayerNormalization", dict(ids=ids(9), segments=ids(2), **table, mask=ids(2)), outputs=("y", "count"), epsilon=1e-5)
    bits, n, inner, block = (4, 8)[k % 2], int(rng.integers(1, 9)), int(rng.integers(1, 70)), 16 << k % 2
    blocks = -(-inner // block)
    packed = rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    zeros = rng.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8) if k % 3 else None
    yield of("MatMulNBits", dict(a=real(2, inner), B=packed, Scales=scale(n * blocks), Zeros=zeros), bits=bits, K=inner, N=n, block_size=block)
    heads = int(rng.integers(1, 4))
    cos, sin = (f(np.outer(np.arange(12), 0.3 ** np.arange(4))).astype(np.float32) for f in (np.cos, np.sin))
    positions = np.array([2], np.int64) if k % 2 else rng.integers(0, 12, (b, s)).astype(np.int64)
    yield of("RotaryEmbedding", dict(x=real(b, heads, s, 8), p=positions, Cos=cos, Sin=sin), interleaved=k // 2 % 2)
    yield of("RotaryEmbedding", dict(x=real(b, s, heads * 8), p=positions, Cos=cos, Sin=sin), interleaved=k // 2 % 2)


def attention(k):
    b, s, t, heads = (int(v) for v in rng.integers(1, 5, 4))
    d, causal, past = heads * 8, k % 2, int(rng.integers(1, 4))
    q, key, value = real(b, s, d), real(b, t, d), real(b, t, d)
    masks = (None, rng.integers(1, t + 1, b).astype(np.int32), rng.integers(0, 2, (b, t)).astype(np.int32))
    for mask in masks:
        if mask is not None and mask.ndim == 2:
            mask[:, 0] = 1
    bias = real(1, heads, s, t) if k % 3 else None
    yield of("MultiHeadAttention", dict(q=q, k=key, v=value, Bias=real(3 * d), mask=masks[k % 3], bias=bias), num_heads=heads)
    yield of("MultiHeadAttention", dict(q=q, k=real(b, s, d), v=real(b, s, d), Bias=None, mask=None, bias=None, pk=real(b, heads, past, 8), pv=real(b, heads, past, 8)),
             outputs=("y", "pk2", "pv2"), num_heads=heads, unidirectional=causal)
    length = rng.integers(1, s + 1, b).astype(np.int32)
    plain = dict(x=real(b, s, 12), W=real(12, 3 * d), B=real(3 * d))
    yield of("Attention", dict(plain, mask=length if k % 3 == 0 else None), num_heads=heads, unidirectional=causal)
    full = np.ones((b, past + s), np.int32)
    yield of("Attention", dict(plain, mask=full, past=real(2, b, heads, past, 8)), outputs=("y", "present"), num_heads=heads, unidirectional=1)
    yield of("QAttention", dict(x=quantized(b, s, 12), W=weights(12, 3 * d), B=real(3 * d), X_scale=np.float32(0.02), W_scale=np.float32(0.01), mask=None,
                                X_zero=np.uint8(128), W_zero=np.int8(0)), num_heads=heads, unidirectional=causal)
    kv = 1 if heads % 2 else heads // 2
    cos, sin = (f(np.outer(np.arange(12), 0.3 ** np.arange(4))).astype(np.float32) for f in (np.cos, np.sin))
    options = dict(num_heads=heads, kv_num_heads=kv, do_rotary=causal, local_window_size=(-1, 2)[k // 2 % 2], softcap=(0.0, 5.0)[k // 3 % 2])
    cos, sin = np.tile(cos, 2), np.tile(sin, 2)
    ends, d = np.full(b, s - 1, np.int32), heads * 16
    yield of("GroupQueryAttention", dict(q=real(b, s, d), k=real(b, s, kv * 16), v=real(b, s, kv * 16), pk=None, pv=None, ends=ends, Total=np.int32(s), Cos=cos, Sin=sin),
             outputs=("y", "pk2", "pv2"), **options)
    yield of("GroupQueryAttention", dict(q=real(1, 1, d), k=real(1, 1, kv * 16), v=real(1, 1, kv * 16), pk=real(1, kv, past, 16), pv=real(1, kv, past, 16),
                                         ends=np.array([past], np.int32), Total=np.int32(past + 1), Cos=cos, Sin=sin), outputs=("y", "pk2", "pv2"), **options)


GROUPS = (integers, recurrent, fused, attention)


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
                    rows.append({"name": name, "rtol": 1e-4 if group in (recurrent, attention) else 1e-5, "atol": 2e-6, "inputs": ins, "outputs": outs})
                    write(name + "/model.onnx", m.SerializeToString())
                    write(name + "/data.onnx", helper.make_model(data, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
        write("index.json", json.dumps({"onnxruntime": ort.__version__, "cases": rows}, indent=1).encode())
    print(f"{path}: {len(rows)} cases of ONNX Runtime {ort.__version__}")


main()
