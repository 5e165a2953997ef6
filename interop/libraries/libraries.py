"""One runner for each library: what it returns of a function, as a tensor or several. Each imports its library only when
it is asked for."""

from __future__ import annotations

import functools

import torch

from functions import FUNCTIONS
from report import NAMES


class Unsupported(Exception):
    """What a library does not have, or not in this type."""


def eager(name, dtype):
    return FUNCTIONS[name][0]


def compiled(name, dtype):
    torch._dynamo.reset()
    return torch.compile(FUNCTIONS[name][0], dynamic=False)


def jax(name, dtype, jit=True):
    import jax
    import jax.numpy as jnp
    import numpy as np

    import in_jax

    if name not in in_jax.FUNCTIONS:
        raise Unsupported(name)
    f = in_jax.FUNCTIONS[name]
    f = jax.jit(f) if jit else f

    def back(y):
        half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(str(y.dtype))
        t = torch.from_numpy(np.array(y.astype(jnp.float32) if half else y))
        return t.to(half) if half else t.long() if t.dtype == torch.int32 else t

    def run(*tensors):
        return jax.tree.map(back, f(*(jnp.asarray(t.float().numpy()).astype(NAMES[dtype]) for t in tensors)))

    return run


@functools.cache
def model(name, dtype, shape):
    """A function as an ONNX model of one node."""
    import onnx
    from onnx import TensorProto, helper

    import in_onnx

    if name not in in_onnx.FUNCTIONS or dtype == torch.bfloat16:
        raise Unsupported(name)
    op, attributes, before = (*in_onnx.FUNCTIONS[name], {})[:3]
    kind = TensorProto.FLOAT if dtype == torch.float32 else TensorProto.FLOAT16
    names = ["x", "y", "z"][: FUNCTIONS[name][1]]
    nodes = [helper.make_node(b, [i], [b + i]) for i, b in before.items()]
    nodes.append(helper.make_node(op, [before.get(i, "") + i for i in names], ["o"], **attributes))
    inputs = [helper.make_tensor_value_info(i, kind, shape) for i in names]
    graph = helper.make_graph(nodes, name, inputs, [helper.make_empty_tensor_value_info("o")])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24 if op == "Swish" else 22)], ir_version=10)
    return onnx.shape_inference.infer_shapes(m).SerializeToString(), names


def in_onnxruntime(data):
    """A model's outputs for named inputs by ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return functools.partial(onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run, None)


def in_openvino(data):
    import openvino

    compiled = compiler().compile_model(compiler().read_model(data), "CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    return lambda feed: list(compiled(feed).values())


@functools.cache
def compiler():
    import openvino

    return openvino.Core()


def node(session, name, dtype):
    """A function as a model of one node, by what makes a session of it."""
    import numpy as np

    def run(*tensors):
        data, names = model(name, dtype, tuple(tensors[0].shape))
        return torch.from_numpy(np.array(session(data)({n: t.numpy() for n, t in zip(names, tensors)})[0]))

    return run


LIBRARIES = {
    "eager": eager,
    "compiled": compiled,
    "jax": jax,
    "jax-eager": functools.partial(jax, jit=False),
    "onnxruntime": functools.partial(node, in_onnxruntime),
    "openvino": functools.partial(node, in_openvino),
}
