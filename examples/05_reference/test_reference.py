"""A torch module beside its exact twin, and a test without a tolerance.

    pytest test_reference.py        # needs torch, pytest and refrun
"""

import torch
from torch import nn

import refrun

torch.manual_seed(0)
operator = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1)).eval()
x = torch.randn(2, 3, 48, 48)


def test_float32():
    with torch.no_grad():
        refrun.assert_same(operator, x, operator(x))


def test_bfloat16():
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        refrun.assert_same(operator, x, operator(x), precision="bfloat16", autocast="cpu")


def test_a_wrong_one_fails():
    """Nobody sees by eye that one channel of 16 was normalized with another epsilon."""
    with torch.no_grad():
        y = operator[0](x)
        z = operator[1](y)
        z[:, 3] = nn.functional.group_norm(y, 4, operator[1].weight, operator[1].bias, 1e-3)[:, 3]
        y = operator[3](operator[2](z))
    try:
        refrun.assert_same(operator, x, y)
    except AssertionError as report:
        assert "FAIL" in str(report)
    else:
        raise AssertionError("it passed")


def test_the_exact_twin():
    exact = refrun.reference(operator)
    with torch.no_grad():
        assert (exact(x) - operator(x)).abs().max() < 1e-5
    exact.close()


if __name__ == "__main__":  # without pytest
    test_float32(), test_bfloat16(), test_a_wrong_one_fails(), test_the_exact_twin()
    print("4 tests passed")
