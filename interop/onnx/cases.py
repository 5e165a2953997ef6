# Writes the test cases of the onnx package that use only the operations of package onnx's
# table as one archive, which `go test ./onnx -onnx.cases FILE` runs.
#
#   python cases.py OUT.zip [--sample]
#
# For each case the archive has NAME/model.onnx and NAME/data.onnx, a model whose constants
# are the inputs and the expected outputs, and index.json says their names and the suite's
# tolerances. A sample has small cases, a few for each operation.
import json
import sys
import warnings
import zipfile

warnings.filterwarnings("ignore")

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

OPERATIONS = set(
    """Conv ConvTranspose Gemm MatMul Add Sub Mul Div Pow Sqrt Reciprocal Erf Exp Log Sigmoid Tanh
    Relu Gelu Swish Softmax LayerNormalization InstanceNormalization GroupNormalization
    BatchNormalization RMSNormalization Attention GlobalAveragePool AveragePool MaxPool ReduceMean
    ReduceSum Reshape Transpose Flatten Unsqueeze Squeeze Expand Concat Split Slice Gather GatherND
    GatherElements ScatterND ScatterElements Pad Resize Cast QuantizeLinear DequantizeLinear
    DynamicQuantizeLinear DFT Sin Cos Less Where Einsum Identity Constant ConstantOfShape Shape Clip
    Neg Abs Sum Tile Max Min Equal Greater And Not LpPool GlobalLpPool LpNormalization
    MeanVarianceNormalization Mean ReduceSumSquare ReduceLogSum ReduceLogSumExp ReduceL1 ReduceL2
    MatMulInteger ConvInteger QLinearMatMul QLinearConv RotaryEmbedding
    LRN ReverseSequence Upsample
    LSTM GRU RNN If Loop Scan STFT IsNaN IsInf HardSigmoid PRelu
    Unique Compress MelWeightMatrix GridSample""".split()
)


# How many cases of an operation a sample has at most, where it is not 4.
MOST = {"Attention": 33, "Resize": 20, "GridSample": 20, "Cast": 24, "ConvTranspose": 10, "MaxPool": 10, "AveragePool": 10, "DFT": 8}

# Larger cases that a sample has all the same.
KEPT = {"test_attention_4d_causal_with_past_and_present"}


def constant(value, name):
    """The value as a constant of that name, or None for a list or an optional value."""
    if isinstance(value, onnx.TensorProto):
        t = onnx.TensorProto()
        t.CopyFrom(value)
        t.name = name
        return t
    if value is None or isinstance(value, list):
        return None
    return numpy_helper.from_array(numpy.asarray(value), name)


def cases():
    for case in sorted(collect_testcases(None), key=lambda c: c.name):
        if case.model is None or any(n.op_type not in OPERATIONS for n in case.model.graph.node):
            continue
        for k, (given, wanted) in enumerate(case.data_sets):
            inputs = [constant(v, f"input_{i}") for i, v in enumerate(given)]
            outputs = [constant(v, f"output_{i}") for i, v in enumerate(wanted)]
            row = {
                "name": case.name if k == 0 else f"{case.name}:{k}",
                "rtol": case.rtol,
                "atol": case.atol,
                "operations": sorted({n.op_type for n in case.model.graph.node}),
                "inputs": [None if t is None else t.name for t in inputs],
                "outputs": [None if t is None else t.name for t in outputs],
            }
            data = onnx.helper.make_graph(
                [], "data", [], [], [t for t in inputs + outputs if t is not None]
            )
            data.output.extend(
                onnx.helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in data.initializer
            )
            model = onnx.helper.make_model(data, opset_imports=[onnx.helper.make_opsetid("", 21)])
            yield row, case.model.SerializeToString(), model.SerializeToString()


def main():
    path, sample = sys.argv[1], "--sample" in sys.argv[2:]
    rows, seen = [], {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:

        def write(name, data):
            info = zipfile.ZipInfo(name)  # without the time: equal cases are equal archives
            info.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(info, data)

        for row, model, data in cases():
            if sample:
                new = [op for op in row["operations"] if seen.get(op, 0) < MOST.get(op, 4)]
                if row["name"] in KEPT:
                    pass
                elif not new or len(row["operations"]) > 6 or len(model) + len(data) > 4500 or None in row["inputs"] + row["outputs"]:
                    continue
                for op in row["operations"]:
                    seen[op] = seen.get(op, 0) + 1
            rows.append(row)
            write(row["name"] + "/model.onnx", model)
            write(row["name"] + "/data.onnx", data)
        about = {"onnx": onnx.__version__, "cases": rows}
        write("index.json", json.dumps(about, indent=1).encode())
    print(f"{path}: {len(rows)} cases of onnx {onnx.__version__}")


main()
