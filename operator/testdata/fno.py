#!/usr/bin/env python3
"""Writes fno.K.safetensors and fno.json: what neuraloperator's FNO computes.

usage: fno.py        needs torch (2.9.1 was used), neuraloperator (2.0.0) and safetensors

Of each configuration there are the state_dict, an input, and the outputs in float32 and in
float64. The complex weights are stored as complex64 numbers, or as pairs.
"""
import copy, json, pathlib
import torch
from neuralop.models import FNO
from safetensors.torch import save_file

# The arguments, the size of the image. In turn: the defaults; odd sides with fewer modes than
# the weights; other skips and a norm; none of what can be left out.
CASES = [
    (dict(n_modes=(6, 8), hidden_channels=4, n_layers=2), 12, 16),
    (dict(n_modes=(9, 12), hidden_channels=3, n_layers=3, norm="group_norm", channel_mlp_expansion=1.0), 7, 9),
    (dict(n_modes=(4, 3), hidden_channels=5, n_layers=2, norm="instance_norm", fno_skip="soft-gating", channel_mlp_skip="linear",
          lifting_channel_ratio=1.5, projection_channel_ratio=3), 10, 11),
    (dict(n_modes=(5, 4), hidden_channels=4, n_layers=1, positional_embedding=None, use_channel_mlp=False, fno_skip="identity"), 8, 6),
]


def main():
    torch.set_num_threads(1)
    here, told = pathlib.Path(__file__).parent, []
    for k, (o, h, w) in enumerate(CASES):
        torch.manual_seed(200 + k)
        model = FNO(in_channels=2, out_channels=2, **o).eval()
        with torch.no_grad():
            for name, p in model.named_parameters():
                if "skips" in name and p.ndim == 4:
                    p.normal_()  # gates of 1 are no test
        x = torch.randn(2, 2, h, w)
        tensors = {}
        for name, p in model.state_dict().items():
            if torch.is_tensor(p):
                tensors["weights." + name] = torch.view_as_real(p).contiguous() if k % 2 and p.is_complex() else p
        with torch.no_grad():
            tensors["input"], tensors["float32"] = x, model(x)
            wide = copy.deepcopy(model)
            for m in wide.modules():
                for name, p in list(m._parameters.items()):
                    if p is not None:
                        m._parameters[name] = torch.nn.Parameter(p.to(torch.complex128 if p.is_complex() else torch.float64))
            cfloat, torch.cfloat = torch.cfloat, torch.complex128  # in which SpectralConv keeps its product
            tensors["float64"] = wide(x.double())
            torch.cfloat = cfloat
        save_file({n: t.contiguous() for n, t in tensors.items()}, here / f"fno.{k}.safetensors")
        o = {key: list(v) if isinstance(v, tuple) else "none" if v is None else v for key, v in o.items()}
        told.append(dict(operator_type="fno", input_channels=2, output_channels=2, **o))
    (here / "fno.json").write_text("[\n" + ",\n".join(json.dumps(t) for t in told) + "\n]\n")


if __name__ == "__main__":
    main()
