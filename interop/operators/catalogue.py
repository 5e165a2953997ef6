"""Public networks that people step, small, with weights from a seed. Each maps a state to one of its shape.

NETWORKS holds for each name what makes the module and the shape of the state. A module that is called with more
than a state, or that returns something of another shape, is called by one of the adapters below.
"""

import torch
import torch.nn.functional as F
from torch import nn

NETWORKS = {}
IMAGE = (2, 3, 32, 32)


def network(name, shape=IMAGE):
    """Enters a function that makes a module, or an entry of a package, under `package/name`."""

    def add(make):
        NETWORKS[name] = (make, shape)
        return make

    return add


def build(name, seed=0):
    """The module in evaluation mode, and a state. No parameter keeps a value that hides what is behind it."""
    make, shape = NETWORKS[name]
    torch.manual_seed(seed)
    module = make().eval()
    for m in module.modules():
        if getattr(m, "running_mean", None) is not None:
            m.running_mean.normal_(0, 0.3), m.running_var.uniform_(0.5, 1.5)
    for p in module.parameters():
        if not p.dtype.is_floating_point or p.numel() < 2:
            continue
        size, inputs = float(p.detach().std()), p[0].numel()
        if size == 0:  # gates, the last layer, affine parts of norms
            p.data += torch.randn_like(p) * 0.1
        if p.dim() > 1 and size * inputs**0.5 < 0.1:  # a last layer that starts near zero: with it a network is its biases
            p.data.normal_(0, inputs**-0.5)
    return module, torch.randn(shape)


class Wrapped(nn.Module):
    """A module that is called by a function of it and the state."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, x):
        return self.call(self.module, x)


def last(module):
    """[N,C,...] in and out, of a module of [N,...,C]."""
    return Wrapped(module, lambda m, x: m(x.movedim(1, -1)).movedim(-1, 1))


def flat(module):
    """As many classes as the state has numbers."""
    return Wrapped(module, lambda m, x: m(x).reshape(x.shape))


def _numbers(shape=IMAGE):
    return torch.Size(shape[1:]).numel()


def entries(package, table, shape=IMAGE):
    """Enters {name: make} or {name: (make, shape)}."""
    for name, make in table.items():
        make, of = make if isinstance(make, tuple) else (make, shape)
        network(f"{package}/{name}", of)(make)


# the_well's benchmark. Its FNO and TFNO are neuraloperator's of an older version, and do not run with 2.0.
def well(name, **more):
    def make():
        import the_well.benchmark.models as models

        return getattr(models, name)(dim_in=3, dim_out=3, n_spatial_dims=2, spatial_resolution=(32, 32), **more)

    return make


entries(
    "the_well",
    {
        "DilatedResNet": well("DilatedResNet", blocks=2, hidden_dim=12),
        "UNetClassic": well("UNetClassic", init_features=8),
        "UNetConvNext": well("UNetConvNext", init_features=8, stages=3),
    },
)
network("the_well/AFNO")(lambda: last(well("AFNO", hidden_dim=32, n_blocks=2, cmlp_diagonal_blocks=4, patch_size=4)()))
network("the_well/ReFNO")(lambda: last(well("ReFNO", hidden_dim=12, blocks=2)()))
network("the_well/AViT")(lambda: last(well("AViT", hidden_dim=48, num_heads=4, processor_blocks=2)()))


# neuraloperator.
def neural(name, **more):
    def make():
        import neuralop.models as models

        return getattr(models, name)(in_channels=3, out_channels=3, **more)

    return make


UNO = dict(
    hidden_channels=16,
    lifting_channels=16,
    projection_channels=16,
    n_layers=3,
    uno_out_channels=[16, 16, 16],
    uno_n_modes=[[6, 6], [6, 6], [6, 6]],
    uno_scalings=[[1, 1], [0.5, 0.5], [2, 2]],
    channel_mlp_skip="linear",
)
entries(
    "neuraloperator",
    {
        "FNO": neural("FNO", n_modes=(8, 8), hidden_channels=16, n_layers=2),
        "FNO 1-D": (neural("FNO", n_modes=(12,), hidden_channels=16, n_layers=2), (4, 3, 384)),
        "FNO 3-D": (neural("FNO", n_modes=(4, 4, 4), hidden_channels=8, n_layers=2), (1, 3, 14, 12, 16)),
        "FNO, odd, padded, instance norm": (
            neural("FNO", n_modes=(8, 8), hidden_channels=16, n_layers=2, domain_padding=0.2, norm="instance_norm"),
            (2, 3, 31, 29),
        ),
        "FNO, separable": neural("FNO", n_modes=(8, 8), hidden_channels=16, n_layers=2, separable=True),
        "TFNO, Tucker, factorized": neural(
            "TFNO",
            n_modes=(8, 8),
            hidden_channels=16,
            n_layers=2,
            factorization="tucker",
            implementation="factorized",
            rank=0.3,
        ),
        "TFNO, Tucker, reconstructed": neural(
            "TFNO",
            n_modes=(8, 8),
            hidden_channels=16,
            n_layers=2,
            factorization="tucker",
            implementation="reconstructed",
            rank=0.3,
        ),
        "TFNO, CP": neural(
            "TFNO",
            n_modes=(8, 8),
            hidden_channels=16,
            n_layers=2,
            factorization="cp",
            implementation="factorized",
            rank=0.2,
        ),
        "TFNO, TT": neural(
            "TFNO",
            n_modes=(8, 8),
            hidden_channels=16,
            n_layers=2,
            factorization="tt",
            implementation="factorized",
            rank=0.3,
        ),
        "UNO": neural("UNO", **UNO),
        "SFNO": neural("SFNO", n_modes=(8, 8), hidden_channels=16, n_layers=2),
        "LocalNO": neural(
            "LocalNO", n_modes=(8, 8), hidden_channels=16, n_layers=2, default_in_shape=(32, 32), disco_layers=False
        ),
    },
)


@network("neuraloperator/UQNO")
def uqno():
    import neuralop.models as models

    f = lambda: neural("FNO", n_modes=(8, 8), hidden_channels=12, n_layers=2)()
    return Wrapped(models.UQNO(f(), f()), lambda m, x: sum(m(x)))


@network("neuraloperator/CODANO")
def codano():
    import neuralop.models as models

    return models.CODANO(
        output_variable_codimension=1,
        hidden_variable_codimension=8,
        lifting_channels=16,
        projection_channels=16,
        n_layers=2,
        n_heads=[2, 2],
        n_modes=[[6, 6], [6, 6]],
        attention_scaling_factors=[0.5, 0.5],
        per_layer_scaling_factors=[[1, 1], [1, 1]],
    )


# physicsnemo.
def nemo(module, name, *args, **more):
    def make():
        import importlib

        return getattr(importlib.import_module(f"physicsnemo.models.{module}"), name)(*args, **more)

    return make


def timed(make):
    """A denoiser, at one level of noise."""
    return lambda: Wrapped(make(), lambda m, x: m(x, torch.full((x.shape[0],), 0.7, device=x.device), None))


SONG = dict(
    img_resolution=16,
    in_channels=3,
    out_channels=3,
    model_channels=16,
    channel_mult=[1, 2],
    num_blocks=1,
    attn_resolutions=[8],
    dropout=0.0,
)
entries(
    "physicsnemo",
    {
        "FNO": nemo("fno", "FNO", 3, 3, latent_channels=16, num_fno_layers=2, num_fno_modes=6, padding=4),
        "FNO 3-D": (
            nemo("fno", "FNO", 3, 3, dimension=3, latent_channels=8, num_fno_layers=2, num_fno_modes=4, padding=2),
            (1, 3, 12, 14, 10),
        ),
        "AFNO": nemo("afno", "AFNO", [32, 32], 3, 3, patch_size=[4, 4], embed_dim=32, depth=2, num_blocks=4),
        "SongUNet, DDPM++": (timed(nemo("diffusion_unets", "SongUNet", **SONG)), (8, 3, 16, 16)),
        "SongUNet, NCSN++": (
            timed(
                nemo(
                    "diffusion_unets",
                    "SongUNet",
                    **SONG,
                    embedding_type="fourier",
                    encoder_type="residual",
                    decoder_type="skip",
                    resample_filter=[1, 3, 3, 1],
                )
            ),
            (8, 3, 16, 16),
        ),
        "DhariwalUNet": (
            timed(nemo("diffusion_unets", "DhariwalUNet", **{**SONG, "model_channels": 64, "channel_mult": [1]})),
            (8, 3, 16, 16),
        ),
        "DLWP": (nemo("dlwp", "DLWP", 3, 3, nr_initial_channels=8, depth=1), (1, 3, 6, 16, 16)),
        "Pix2Pix": nemo("pix2pix", "Pix2Pix", 3, 3, 2, conv_layer_size=8, n_downsampling=2, n_upsampling=2, n_blocks=2),
        "UNet 3-D": (
            nemo("unet", "UNet", 3, 3, model_depth=2, feature_map_channels=[8, 8, 16, 16], num_conv_blocks=2),
            (1, 3, 12, 12, 12),
        ),
        "One2ManyRNN": (
            (
                lambda: Wrapped(
                    nemo(
                        "rnn",
                        "One2ManyRNN",
                        3,
                        nr_latent_channels=16,
                        nr_residual_blocks=1,
                        nr_downsamples=1,
                        nr_tsteps=2,
                    )(),
                    lambda m, x: m(x[:, :, None])[:, :, -1],
                )
            ),
            IMAGE,
        ),
        "DPOTNet": (
            lambda: Wrapped(
                nemo(
                    "dpot",
                    "DPOTNet",
                    inp_shape=32,
                    patch_size=4,
                    in_channels=3,
                    out_channels=3,
                    embed_dim=32,
                    out_layer_dim=16,
                    depth=2,
                    modes=4,
                    num_blocks=4,
                )(),
                lambda m, x: m(x.movedim(1, -1)[:, :, :, None])[..., 0, :].movedim(-1, 1),
            )
        ),
        "Transolver": (
            (
                lambda: last(
                    nemo(
                        "transolver",
                        "Transolver",
                        3,
                        3,
                        n_layers=2,
                        n_hidden=32,
                        n_head=4,
                        slice_num=8,
                        structured_shape=(32, 32),
                        use_te=False,
                        unified_pos=True,
                    )()
                )
            ),
            IMAGE,
        ),
        "DiT": (
            lambda: Wrapped(
                nemo(
                    "dit",
                    "DiT",
                    input_size=32,
                    in_channels=3,
                    patch_size=4,
                    hidden_size=48,
                    depth=2,
                    num_heads=4,
                    attention_backend="timm",
                )(),
                lambda m, x: m(x, torch.full((x.shape[0],), 0.7)),
            )
        ),
        "FullyConnected": (
            nemo("mlp", "FullyConnected", in_features=96, out_features=96, layer_size=64, num_layers=3),
            (64, 96),
        ),
    },
)


# torch-harmonics.
def harmonics(name, **more):
    def make():
        import torch_harmonics.examples.models as models

        return getattr(models, name)(img_size=(32, 64), in_chans=3, out_chans=3, **more)

    return make


entries(
    "torch-harmonics",
    {
        "SFNO": harmonics("SphericalFourierNeuralOperator", scale_factor=1, embed_dim=16, num_layers=2),
        "LSNO": harmonics("LocalSphericalNeuralOperator", scale_factor=2, embed_dim=16, num_layers=2),
        "SphericalTransformer, global": harmonics(
            "SphericalTransformer", scale_factor=2, embed_dim=16, num_layers=1, attention_mode="global"
        ),
        "SphericalUNet": harmonics("SphericalUNet", embed_dims=[8, 16], depths=[1, 1], drop_dense_rate=0.0),
    },
    (1, 3, 32, 64),
)


# timm and torchvision: classifiers of as many classes as the state has numbers, and networks of images.
def timm(name, **more):
    def make():
        import timm

        return flat(timm.create_model(name, pretrained=False, num_classes=_numbers(), **more))

    return make


entries(
    "timm",
    {
        "vit_tiny_patch16_224": timm("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=48, depth=2),
        "eva02_tiny_patch14_224": timm("eva02_tiny_patch14_224", img_size=32, patch_size=8, embed_dim=48, depth=2),
        "beit_base_patch16_224": timm(
            "beit_base_patch16_224", img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=4
        ),
        "swin_tiny_patch4_window7_224": timm(
            "swin_tiny_patch4_window7_224", img_size=32, window_size=4, embed_dim=24, depths=(2, 2), num_heads=(2, 4)
        ),
        "MlpMixer": lambda: flat(_mixer()),
        "convnextv2_atto": timm("convnextv2_atto", depths=(1, 1, 2, 1), dims=(8, 16, 24, 32)),
        "xcit_nano_12_p16_224": timm("xcit_nano_12_p16_224", embed_dim=32, depth=2, num_heads=4),
        "nfnet_l0": timm("nfnet_l0", depths=(1, 1, 1, 1), channels=(16, 32, 48, 48), num_features=64, group_size=8),
    },
)


def _mixer():
    from timm.models import MlpMixer

    return MlpMixer(num_classes=_numbers(), img_size=32, patch_size=8, num_blocks=2, embed_dim=48)


def vision(name, **more):
    def make():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **more)

    return make


def segmented(name):
    return lambda: Wrapped(vision(name, weights_backbone=None, num_classes=3)(), lambda m, x: m(x)["out"])


entries(
    "torchvision",
    {
        "resnet18": lambda: flat(vision("resnet18", num_classes=_numbers())()),
        "SwinTransformer, version 2": lambda: flat(_swin()),
        "VisionTransformer": lambda: flat(_vit()),
        "fcn_resnet50": segmented("fcn_resnet50"),
        "lraspp_mobilenet_v3_large": segmented("lraspp_mobilenet_v3_large"),
    },
)


def _vit():
    from torchvision.models.vision_transformer import VisionTransformer

    return VisionTransformer(32, 8, 2, 4, 48, 96, num_classes=_numbers())


def _swin():
    from torchvision.models import swin_transformer as swin

    block, merge = swin.SwinTransformerBlockV2, swin.PatchMergingV2
    sizes = dict(patch_size=[2, 2], embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4])
    return swin.SwinTransformer(**sizes, num_classes=_numbers(), block=block, downsample_layer=merge)


# x-transformers: tokens with numbers.
def tokens(**more):
    def make():
        from x_transformers import ContinuousTransformerWrapper, Encoder

        return ContinuousTransformerWrapper(
            dim_in=48,
            dim_out=48,
            max_seq_len=64,
            attn_layers=Encoder(dim=48, depth=2, heads=4, attn_dim_head=16, **more),
        )

    return make


entries(
    "x-transformers",
    {
        "Encoder": tokens(),
        "Encoder, rotary, RMS norm, SwiGLU": tokens(rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True, ff_swish=True),
        "Encoder, ALiBi, query-key norm": tokens(alibi_pos_bias=True, attn_qk_norm=True),
        "Encoder, T5's relative positions": tokens(rel_pos_bias=True),
    },
    (4, 64, 48),
)


# vit-pytorch.
def vit(module, name, **more):
    def make():
        import importlib

        return flat(getattr(importlib.import_module(f"vit_pytorch.{module}"), name)(num_classes=_numbers(), **more))

    return make


SMALL = dict(image_size=32, patch_size=8, dim=48, depth=2, heads=4)
entries(
    "vit-pytorch",
    {
        "ViT": vit("vit", "ViT", **SMALL, mlp_dim=96),
        "SimpleViT": vit("simple_vit", "SimpleViT", **SMALL, mlp_dim=96),
        "SimpleViT, with spectrum": vit(
            "simple_vit_with_fft", "SimpleViT", **{k: v for k, v in SMALL.items()}, freq_patch_size=8, mlp_dim=96
        ),
        "DeepViT": vit("deepvit", "DeepViT", **SMALL, mlp_dim=96),
        "CCT": vit(
            "cct",
            "CCT",
            img_size=32,
            embedding_dim=48,
            num_layers=2,
            num_heads=4,
            mlp_ratio=2.0,
            n_conv_layers=1,
            kernel_size=3,
            stride=2,
            padding=1,
        ),
        "T2T-ViT": vit(
            "t2t", "T2TViT", dim=48, image_size=32, depth=2, heads=4, mlp_dim=96, t2t_layers=((7, 4), (3, 2))
        ),
        "MaxViT": vit("max_vit", "MaxViT", dim_conv_stem=8, dim=8, dim_head=8, depth=(1, 1), window_size=4),
    },
)


@network("vit-pytorch/SimpleUViT")
def uvit():
    from vit_pytorch.simple_uvit import SimpleUViT

    return flat(SimpleUViT(image_size=32, patch_size=8, num_classes=_numbers(), dim=48, depth=2, heads=4, mlp_dim=96))


# Written by hand, as in many a repository.
@network("by hand/ConvLSTM", (2, 12, 24, 24))
class ConvLSTM(nn.Module):
    """The state is image, hidden state and memory, one behind the other."""

    def __init__(self):
        super().__init__()
        self.gates, self.out = nn.Conv2d(3 + 5, 20, 3, padding=1), nn.Conv2d(5, 2, 3, padding=1)

    def forward(self, s):
        x, h, c = s.split([2, 5, 5], 1)
        i, f, o, g = self.gates(torch.cat([x, x[:, :1] * x[:, 1:], h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return torch.cat([self.out(h), h, c], 1)


@network("by hand/LSTM, two layers, both directions", (16, 8, 48))
def lstm():
    return Wrapped(nn.LSTM(48, 24, 2, bidirectional=True, batch_first=True), lambda m, x: m(x)[0])


@network("by hand/GRU", (16, 8, 48))
def gru():
    return Wrapped(nn.GRU(48, 48, batch_first=True), lambda m, x: m(x)[0])


@network("by hand/KV cache", (4, 33, 40))
class Cache(nn.Module):
    """The first row is the token, the others are keys and values of the last 32, the newest first."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.kv, self.up, self.down = (
            nn.LayerNorm(40),
            nn.Linear(40, 20),
            nn.Linear(40, 40),
            nn.Linear(20, 80),
            nn.Linear(80, 40),
        )

    def forward(self, s):
        x = self.norm(s[:, :1])
        cache = torch.cat([self.kv(x), s[:, 1:-1].to(x.dtype)], 1)
        k, v = cache.chunk(2, -1)
        y = F.scaled_dot_product_attention(self.q(x), k, v)
        return torch.cat([self.down(F.silu(self.up(y))).to(cache.dtype), cache], 1)


@network("by hand/neural ODE, Runge-Kutta")
class Ode(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, padding_mode="circular"),
            nn.Tanh(),
            nn.Conv2d(16, 3, 3, padding=1, padding_mode="circular"),
        )

    def forward(self, x, dt=0.2):
        a = self.net(x)
        b = self.net(x + dt / 2 * a)
        c = self.net(x + dt / 2 * b)
        return (a + 2 * b + 2 * c + self.net(x + dt * c)) / 6


@network("by hand/diffusion U-Net")
class Diffusion(nn.Module):
    """A denoiser with an embedding of the time, one step of DDIM."""

    def __init__(self, width=16):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2 * width))
        self.a, self.b, self.c = (
            nn.Conv2d(3, width, 3, padding=1),
            nn.Conv2d(width, 2 * width, 3, 2, 1),
            nn.Conv2d(3 * width, width, 3, padding=1),
        )
        self.n1, self.n2, self.out = (
            nn.GroupNorm(4, width),
            nn.GroupNorm(4, 2 * width),
            nn.Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, x, t=0.6, s=0.5):
        f = torch.exp(torch.arange(8, device=x.device) * -0.7) * t
        e = self.time(torch.cat([torch.sin(f), torch.cos(f)])[None])[:, :, None, None]
        h = F.silu(self.n1(self.a(x)))
        m = F.silu(self.n2(self.b(h) + e))
        eps = self.out(F.silu(self.c(torch.cat([F.interpolate(m, scale_factor=2.0), h], 1))))
        return s * ((x - (1 - t * t) ** 0.5 * eps) / t) + (1 - s * s) ** 0.5 * eps - x


@network("by hand/message passing on a grid", (97, 48))
class Messages(nn.Module):
    def __init__(self):
        super().__init__()
        self.edge, self.node, self.norm = nn.Linear(98, 48), nn.Linear(96, 48), nn.LayerNorm(48)
        i = torch.arange(97)
        self.register_buffer("edges", torch.stack([i.repeat(4), torch.cat([(i + d) % 97 for d in (1, -1, 10, -10)])]))
        self.register_buffer("length", torch.randn(4 * 97, 2))

    def forward(self, x):
        i, j = self.edges
        m = F.relu(self.edge(torch.cat([x[i], x[j], self.length.to(x.dtype)], 1)))
        total = torch.zeros(x.shape[0], 48, dtype=m.dtype).scatter_reduce(0, i[:, None].expand(-1, 48), m, "sum")
        return self.norm(F.relu(self.node(torch.cat([x, total.to(x.dtype)], 1))))
