#!/usr/bin/env python3
"""Writes uafno.safetensors and uafno.json: what PyTorch computes for U-AFNOs of many shapes.

usage: uafno.py        needs torch (2.9.1 was used), numpy and safetensors

The module is Spinlock's UAFNOOperator written anew, with the same names, order of
construction and operations. Of each configuration there are a SHA-256 of all parameters
that a seed gives it, an input, and the outputs in float32, in float64, and under the CPU's
autocast to bfloat16 with the type of every module's output.
"""
import hashlib, json, pathlib
import torch
from torch import nn
from safetensors.torch import save_file

ACT = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh, "none": nn.Identity}


def norm(kind, c):
    return {"batch": lambda: nn.BatchNorm2d(c), "instance": lambda: nn.InstanceNorm2d(c, affine=True),
            "group": lambda: nn.GroupNorm(min(32, c), c), "layer": lambda: nn.GroupNorm(1, c), "none": nn.Identity}[kind]()


class ConvBlock(nn.Module):
    def __init__(self, cin, cout, o, stride=1):
        super().__init__()
        plain = o["normalization"] == "none"
        layers = [nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=plain)]
        if not plain:
            layers.append(norm(o["normalization"], cout))
        self.block = nn.Sequential(*layers, ACT[o["activation"]]())

    def forward(self, x):
        return self.block(x)


class ResidualBlock(nn.Module):
    def __init__(self, cin, cout, o):
        super().__init__()
        self.blocks = nn.ModuleList([ConvBlock(cin, cout, o), ConvBlock(cout, cout, o)])
        self.projection = nn.Conv2d(cin, cout, 1, bias=False) if cin != cout else None

    def forward(self, x):
        y = self.blocks[1](self.blocks[0](x))
        return y + (x if self.projection is None else self.projection(x))


class Downsample(nn.Module):
    def __init__(self, c, o):
        super().__init__()
        self.downsample = ConvBlock(c, c, o, stride=2)

    def forward(self, x):
        return self.downsample(x)


class Encoder(nn.Module):
    def __init__(self, o):
        super().__init__()
        b = c = o["base_channels"]
        self.stem = ConvBlock(o["input_channels"], b, o)
        self.feature_blocks, self.downsample_blocks, self.skips = nn.ModuleList(), nn.ModuleList(), []
        for _ in range(o["encoder_levels"]):
            out = min(2 * c, 8 * b)
            blocks = [ResidualBlock(c if i == 0 else out, out, o) for i in range(o["blocks_per_level"])]
            self.feature_blocks.append(nn.Sequential(*blocks))
            self.downsample_blocks.append(Downsample(out, o))
            self.skips.append(out)
            c = out
        self.channels = c

    def forward(self, x):
        x, skips = self.stem(x), []
        for features, down in zip(self.feature_blocks, self.downsample_blocks):
            x = features(x)
            skips.append(x)
            x = down(x)
        return x, skips


class Spectral(nn.Module):
    def __init__(self, c, modes, act):
        super().__init__()
        self.modes = modes
        self.weights_real = nn.Parameter(torch.randn(c, c, modes, modes).mul(1 / (c * c)))
        self.weights_imag = nn.Parameter(torch.randn(c, c, modes, modes).mul(1 / (c * c)))
        self.mlp = nn.Sequential(nn.Linear(c, 2 * c), ACT[act](), nn.Linear(2 * c, c))

    def forward(self, x):
        n, c, h, w = x.shape
        z = torch.fft.rfft2(x, norm="ortho")
        mh, mw = min(self.modes, h), min(self.modes, w // 2 + 1)
        re, im = z[..., :mh, :mw].real, z[..., :mh, :mw].imag
        wr, wi = self.weights_real[..., :mh, :mw], self.weights_imag[..., :mh, :mw]
        mix = lambda a, b: torch.einsum("bihw,iohw->bohw", a, b)
        yr, yi = mix(re, wr) - mix(im, wi), mix(re, wi) + mix(im, wr)
        if yr.dtype == torch.bfloat16:
            yr, yi = yr.float(), yi.float()
        y = torch.zeros(n, c, h, w // 2 + 1, dtype=z.dtype)
        y[..., :mh, :mw] = torch.complex(yr, yi)
        y = torch.fft.irfft2(y, s=(h, w), norm="ortho")
        return self.mlp(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class AFNO(nn.Module):
    def __init__(self, c, modes, ratio, act):
        super().__init__()
        hidden = int(c * ratio)
        self.norm1, self.spectral, self.drop1 = nn.GroupNorm(1, c), Spectral(c, modes, act), nn.Identity()
        self.norm2 = nn.GroupNorm(1, c)
        self.mlp = nn.Sequential(nn.Conv2d(c, hidden, 1), ACT[act](), nn.Identity(), nn.Conv2d(hidden, c, 1))
        self.drop2 = nn.Identity()

    def forward(self, x):
        x = x + self.drop1(self.spectral(self.norm1(x)))
        return x + self.drop2(self.mlp(self.norm2(x)))


class Upsample(nn.Module):
    def __init__(self, cin, cout, o):
        super().__init__()
        self.upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.conv = ConvBlock(cin + cout, cout, o)

    def forward(self, x, skip):
        return self.conv(torch.cat([self.upsample(x), skip], dim=1))


class Output(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv, self.activation = nn.Conv2d(cin, cout, 1), nn.Identity()

    def forward(self, x):
        return self.activation(self.conv(x))


class Decoder(nn.Module):
    def __init__(self, c, skips, o):
        super().__init__()
        self.levels = nn.ModuleList()
        for out in reversed(skips):
            up = Upsample(c, out, o)
            refine = nn.Sequential(*[ResidualBlock(out, out, o) for _ in range(o["blocks_per_level"])])
            self.levels.append(nn.ModuleDict({"upsample": up, "refine": refine}))
            c = out
        self.output = Output(c, o["output_channels"])

    def forward(self, x, skips):
        for level, skip in zip(self.levels, reversed(skips)):
            x = level["refine"](level["upsample"](x, skip))
        return self.output(x)


class UAFNO(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.encoder = Encoder(o)
        c = self.encoder.channels
        hidden = o["hidden_dim"] or 2 * c
        self.bottleneck = nn.Sequential(*[AFNO(c, o["modes"], hidden / c, o["activation"]) for _ in range(o["afno_blocks"])])
        self.decoder = Decoder(c, self.encoder.skips, o)

    def forward(self, x):
        x, skips = self.encoder(x)
        return self.decoder(self.bottleneck(x), skips)


def operator(base, levels, modes, blocks, per_level, normalization, activation, channels=3, hidden=0):
    return dict(operator_type="u_afno", base_channels=base, encoder_levels=levels, modes=modes, afno_blocks=blocks, blocks_per_level=per_level,
                normalization=normalization, activation=activation, input_channels=channels, output_channels=channels, hidden_dim=hidden)


# The operator, and the size of the image. In turn: more modes than frequencies along both
# axes, along one; odd bottlenecks; one mode; a hidden_dim that is cut off; the cap of eight
# times the base; one channel.
CASES = [
    (operator(4, 1, 3, 1, 1, "instance", "gelu"), 12, 12),
    (operator(3, 2, 32, 2, 2, "layer", "silu"), 20, 12),
    (operator(4, 2, 3, 1, 1, "group", "tanh", hidden=7), 12, 28),
    (operator(2, 3, 4, 2, 1, "batch", "relu"), 24, 40),
    (operator(2, 4, 2, 1, 1, "none", "gelu", channels=2), 32, 32),
    (operator(11, 1, 2, 1, 1, "instance", "silu", channels=1, hidden=21), 10, 14),
    (operator(2, 1, 1, 3, 3, "layer", "none"), 6, 8),
    (operator(1, 1, 2, 1, 1, "none", "relu", channels=1), 2, 2),
]


def main():
    torch.set_num_threads(1)
    here, tensors, told = pathlib.Path(__file__).parent, {}, []
    for k, (o, h, w) in enumerate(CASES):
        torch.manual_seed(100 + k)
        model = UAFNO(o).eval()
        digest = hashlib.sha256()
        names = sorted(n for n, _ in model.named_parameters())
        for n in names:
            digest.update(dict(model.named_parameters())[n].detach().numpy().tobytes())
        x = torch.randn(2, o["input_channels"], h, w)
        with torch.no_grad():
            tensors[f"{k}.input"], tensors[f"{k}.float32"] = x, model(x)
            types, hooks = {}, []
            for n, m in model.named_modules():
                def see(m, i, y, n=n):
                    if n and torch.is_tensor(y):
                        types[n] = str(y.dtype)[6:]
                hooks.append(m.register_forward_hook(see))
            with torch.autocast("cpu", torch.bfloat16):
                y = model(x)
            for hook in hooks:
                hook.remove()
            types["output"] = str(y.dtype)[6:]
            tensors[f"{k}.bfloat16"] = y.float()
            tensors[f"{k}.float64"] = model.double()(x.double())
        told.append({"operator": {key: v for key, v in o.items() if v != 0}, "seed": 100 + k, "weights": digest.hexdigest(), "types": types})
    save_file(tensors, here / "uafno.safetensors")
    text = ",\n".join(json.dumps(t) for t in told)
    (here / "uafno.json").write_text(f'{{"torch": "{torch.__version__}", "cases": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
