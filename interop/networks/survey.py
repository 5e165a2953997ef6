"""Which architectures refrun describes: torchvision's and timm's, random weights, one image.

    python survey.py [--only NAME ...] [--run]

A line for each: how many operations it has, or what there is no operation for. The last lines count what is
missing. --run also evaluates each that is described, and says how far it lies from PyTorch, in the output's
standard deviation.
"""

import argparse
import collections
import sys
import warnings

import torch

import refrun

TORCHVISION = """alexnet convnext_tiny deeplabv3_mobilenet_v3_large densenet121 efficientnet_b0 efficientnet_v2_s fcn_resnet50
googlenet inception_v3 lraspp_mobilenet_v3_large maxvit_t mnasnet0_5 mobilenet_v2 mobilenet_v3_small r3d_18 regnet_x_400mf
regnet_y_400mf resnet18 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_1 swin_t swin_v2_t vgg11_bn vit_b_16""".split()
TIMM = """beit_base_patch16_224 cait_xxs24_224 coat_lite_tiny convmixer_768_32 convnextv2_atto crossvit_9_240 deit_tiny_patch16_224
edgenext_xx_small efficientformer_l1 eva02_tiny_patch14_224 fastvit_t8 ghostnet_100 hrnet_w18_small lcnet_050 levit_128s mixer_s16_224
mobilevit_xxs nfnet_f0 poolformer_s12 pvt_v2_b0 res2net50_26w_4s resmlp_12_224 tf_efficientnet_lite0 twins_pcpvt_small xcit_nano_12_p16_224""".split()


def build(name):
    """A model in evaluation mode and its input."""
    torch.manual_seed(0)
    if name in TORCHVISION:
        import torchvision

        kind = name
        kwargs = {"weights": None}
        if any(s in kind for s in ("deeplab", "fcn", "lraspp")):
            kwargs["weights_backbone"] = None
        if kind in ("googlenet", "inception_v3"):
            kwargs["init_weights"] = False
        m = torchvision.models.get_model(kind, **kwargs)
        shape = {"r3d_18": (1, 3, 8, 64, 64), "inception_v3": (1, 3, 299, 299)}.get(kind, (1, 3, 224, 224))
    else:
        import timm

        m = timm.create_model(name, pretrained=False)
        shape = (1, *m.default_cfg["input_size"])
    return m.eval(), torch.randn(shape)


def outcome(name, run):
    """What is missing, by operation, and a line."""
    module, x = build(name)
    try:
        net = refrun.describe(module, (x,))
    except refrun.Unsupported as e:
        kinds = collections.Counter(line.split(":", 1)[1].strip()[:90] for line in e.layers)
        return list(kinds), "; ".join(f"{n} x {k}" for k, n in kinds.items())
    except Exception as e:
        line = str(e).strip().splitlines()[0][:150]
        return [f"{type(e).__name__}: {line}"], line
    if not run:
        return [], f"{len(net.nodes)} operations"
    exact = refrun.reference(net)
    with torch.no_grad():
        want = module(x)
    want = list(want.values()) if isinstance(want, dict) else [want]
    got = exact(x)
    got = list(got.values()) if isinstance(got, dict) else list(got) if isinstance(got, (list, tuple)) else [got]
    off = max(((a - b).square().mean().sqrt() / b.std()).item() for a, b in zip(got, want))
    return [] if off < 1e-4 else [f"is {off:.1e} off"], f"{len(net.nodes)} operations, {off:.1e} from PyTorch"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", nargs="*", help="names")
    p.add_argument("--run", action="store_true")
    o = p.parse_args()
    warnings.filterwarnings("ignore")
    names = o.only or TORCHVISION + TIMM
    missing, good = collections.Counter(), 0
    for name in names:
        lacks, line = outcome(name, o.run)
        good += not lacks
        missing.update(set(lacks))
        print(f"{name:30s} {'' if not lacks else 'REFUSED '}{line}", flush=True)
    print(f"{good} of {len(names)}")
    for what, n in missing.most_common():
        print(f"  {n:3d} {what}")
    sys.exit(good < len(names))


if __name__ == "__main__":
    main()
