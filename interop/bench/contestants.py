"""What takes part in the comparison: each is made for one operator and shape, and answers the seconds of a step."""

import subprocess
import time

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from operators import jax_function, onnx_model


class Local:
    """A function of this process, given three inputs in turn."""

    def __init__(self, f, inputs):
        self.f, self.inputs, self.n = f, inputs, 0

    def output(self, k):
        """What it makes of input k, as float64."""
        y = self.f(self.inputs[k])
        return np.asarray(y.float() if torch.is_tensor(y) else y).astype(np.float64)

    def step(self):
        self.n += 1
        x = self.inputs[self.n % len(self.inputs)]
        began = time.perf_counter()
        self.f(x)
        return time.perf_counter() - began

    def close(self):
        pass


class Refrun:
    """A child process that takes a step for each line, of three inputs of its own in turn."""

    def __init__(self, program, case, precision, inputs, threads):
        batch, _, grid, _ = inputs[0].shape
        self.program, self.case, self.inputs = program, case, inputs
        self.options = ["--config", f"{case}/op.json", "--weights", f"{case}/w.safetensors", "--precision", precision, "--threads", str(threads)]
        self.options += ["--autocast", "cpu:2.x"] if precision.endswith("float16") else []
        self.child = subprocess.Popen([program, "bench", "--lines", "--grid", str(grid), "--batch", str(batch), *self.options],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def output(self, k):
        save_file({"x0": self.inputs[k]}, f"{self.case}/x0.safetensors")
        subprocess.run([self.program, "run", *self.options, "--x0", f"{self.case}/x0.safetensors", "--noise", "none", "--store", "float64",
                        "-o", f"{self.case}/out.safetensors", "--force", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        return load_file(f"{self.case}/out.safetensors")["trajectory"][:, 1]

    def step(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline())

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def onnxruntime(net, inputs, threads):
    import onnxruntime as ort

    o = ort.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
    o.add_session_config_entry("session.force_spinning_stop", "1")  # between calls; within one they may spin
    session = ort.InferenceSession(onnx_model(net, inputs[0].shape), o, providers=["CPUExecutionProvider"])
    return Local(lambda x: session.run(None, {"x": x})[0], inputs)


def openvino(net, inputs, threads, precision):
    import openvino as ov

    core = ov.Core()
    model = core.compile_model(core.read_model(onnx_model(net, inputs[0].shape)), "CPU",
                               {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1})
    request = model.create_infer_request()
    return Local(lambda x: request.infer({0: x}, share_inputs=True)[model.output(0)], inputs)


def jax(net, inputs):
    import jax as j

    f = jax_function(net)
    return Local(lambda x: f(x).block_until_ready(), [j.numpy.asarray(x) for x in inputs])


def pytorch(net, inputs, half=False, compiled=False):
    if compiled:
        torch._dynamo.reset()
        net = torch.compile(net)

    def f(x):
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=half):
            return net(x)

    return Local(f, [torch.from_numpy(x) for x in inputs])


def contestants(net, inputs, case, program, threads):
    """name: (the function that makes it, the precision that its outputs are held to). The first is the unit of the ratios."""
    d = {
        "ONNX Runtime float32": (lambda: onnxruntime(net, inputs, threads), "float32"),
        "OpenVINO float32": (lambda: openvino(net, inputs, threads, "f32"), "float32"),
        "OpenVINO bfloat16": (lambda: openvino(net, inputs, threads, "bf16"), "bfloat16"),
        "JAX float32": (lambda: jax(net, inputs), "float32"),
        "torch float32": (lambda: pytorch(net, inputs), "float32"),
        "torch bfloat16": (lambda: pytorch(net, inputs, half=True), "bfloat16"),
        "torch.compile float32": (lambda: pytorch(net, inputs, compiled=True), "float32"),
        "torch.compile bfloat16": (lambda: pytorch(net, inputs, half=True, compiled=True), "bfloat16"),
    }
    for p in ("float32", "float32:fast", "tf32", "float16", "bfloat16"):
        d[f"refrun {p}"] = (lambda p=p: Refrun(program, case, p, inputs, threads), p.split(":")[0])
    return d
