"""The same functions as one node of ONNX, by the names of functions.py: operation, attributes, and what is done to an input
before it."""

from __future__ import annotations

LAST = dict(axis=-1)

FUNCTIONS = {
    **{n.lower(): (n, {}) for n in "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Sigmoid Sign Sin Sinh Sqrt Tan "
       "Tanh Relu Elu Selu Celu Softsign Mish HardSwish Gelu Add Sub Mul Div".split()},
    "round": ("Round", {}), "softplus_onnx": ("Softplus", {}), "hardsigmoid": ("HardSigmoid", dict(alpha=1 / 6)), "gelu_tanh": ("Gelu", dict(approximate="tanh")),
    "leaky_relu": ("LeakyRelu", dict(alpha=0.01)), "elu_alpha": ("Elu", dict(alpha=0.7)), "celu_alpha": ("Celu", dict(alpha=0.7)),
    "silu": ("Swish", {}), "isnan": ("IsNaN", {}), "isinf": ("IsInf", {}), "softmax": ("Softmax", LAST), "softmax0": ("Softmax", dict(axis=0)),
    "log_softmax": ("LogSoftmax", LAST), "log_softmax0": ("LogSoftmax", dict(axis=0)), "logsumexp_all": ("ReduceLogSumExp", dict(keepdims=0)),
    "norm_all": ("ReduceL2", dict(keepdims=0)), "sum_all": ("ReduceSum", dict(keepdims=0)), "maximum": ("Max", {}), "minimum": ("Min", {}),
    "fmod": ("Mod", dict(fmod=1)), "matmul": ("MatMul", {}, {"y": "Transpose"}), "gram": ("MatMul", {}, {"x": "Transpose"}), "pow": ("Pow", {}, {"x": "Abs"}),
    "argmax": ("ArgMax", dict(axis=-1, keepdims=0)), "argmin": ("ArgMin", dict(axis=0, keepdims=0)), "einsum": ("Einsum", dict(equation="ij,kj->ik")),
    "eq": ("Equal", {}), "lt": ("Less", {}), "ge": ("GreaterOrEqual", {}),
}
