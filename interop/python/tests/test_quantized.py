"""Quantizers of torch, ml_dtypes and numpy arrays, right and wrong, held to bits."""

import unittest

import ml_dtypes
import numpy as np
import torch

import refrun


def mx(x, axis=-1):
    """MXFP8 by floor: codes, and E8M0 scales of blocks of 32."""
    blocks = x.movedim(axis, -1).unflatten(-1, (-1, 32))
    e = torch.frexp(blocks.abs().amax(-1)).exponent - 1 - 8
    codes = (blocks / torch.exp2(e.float())[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)
    return codes.flatten(-2).movedim(-1, axis), torch.exp2(e.float()).to(torch.float8_e8m0fnu).movedim(-1, axis)


class Quantized(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(49)
        self.x = torch.randn(64, 96) * torch.exp(torch.randn(64, 1))

    def test_mx(self):
        codes, scale = mx(self.x)
        r = refrun.assert_kernel("quantize", [self.x], (codes, scale), format="mxfp8_e4m3", rule="floor")
        self.assertEqual([(o["name"], o["verdict"]) for o in r.outputs], [("scale", "PASS"), ("data", "PASS")])
        codes, scale = mx(self.x, 0)
        refrun.assert_kernel("quantize", [self.x], (codes, scale), format="mxfp8_e4m3", rule="floor", axis=0)
        with self.assertRaises(AssertionError) as e:
            refrun.assert_kernel("quantize", [self.x[:, :64]], [c.reshape(64, -1) for c in mx(self.x[:, :64], 0)], format="mxfp8_e4m3", rule="floor")
        self.assertIn("blocks are along axis 0", str(e.exception))

    def test_back(self):
        codes, scale = mx(self.x)
        y = (codes.float().unflatten(-1, (-1, 32)) * scale.float()[..., None]).flatten(-2)
        for out in (y, y.bfloat16()):
            refrun.assert_kernel("dequantize", [codes, scale], out, format="mxfp8_e4m3")
        r = refrun.check_kernel("dequantize", {"data": codes, "scale": scale}, codes.float(), format="mxfp8_e4m3")
        self.assertEqual(r.verdict, "FAIL")

    def test_two_levels(self):
        g = self.x.abs().amax() / (448 * 6)
        blocks = self.x.unflatten(-1, (-1, 16))
        scale = (blocks.abs().amax(-1) / 6 / g).clamp(2.0 ** -9, 448).to(torch.float8_e4m3fn)
        values = (blocks / (g * scale.float())[..., None]).clamp(-6, 6).flatten(-2)
        c = torch.from_numpy(values.numpy().astype(ml_dtypes.float4_e2m1fn).view(np.uint8))
        for data in (c, c[:, ::2] | c[:, 1::2] << 4):
            refrun.assert_kernel("quantize", [self.x, g], (data, scale), format="nvfp4")
        decoded = c.numpy().view(ml_dtypes.float4_e2m1fn).astype(np.float32)
        y = (torch.from_numpy(decoded).unflatten(-1, (-1, 16)) * (g * scale.float())[..., None]).flatten(-2)
        refrun.assert_kernel("dequantize", [c, scale, g], y, format="nvfp4")
        r = refrun.check_kernel("quantize", [self.x, g], (c[:, 1::2] | c[:, ::2] << 4, scale), format="nvfp4")
        self.assertEqual(r.fault_id, "quantize.nibbles-swapped")

    def test_rows(self):
        scale = self.x.abs().amax(1, keepdim=True) / 448
        for codes in ((self.x / scale).to(torch.float8_e4m3fn), (self.x * (1 / scale)).to(torch.float8_e4m3fn)):
            r = refrun.assert_kernel("quantize", [self.x], (codes, scale), format="fp8_e4m3", block="row")
            self.assertTrue(r.outputs[1]["ways"])
        r = refrun.check_kernel("quantize", [self.x], ((self.x / self.x.amax(1, keepdim=True) * 448).to(torch.float8_e4m3fn), self.x.amax(1, keepdim=True) / 448),
                                format="fp8_e4m3", block="row")
        self.assertEqual(r.fault_id, "quantize.amax-signed")

    def test_whole_numbers(self):
        scale, zero = torch.tensor(0.05), torch.tensor(3)
        q = torch.quantize_per_tensor(self.x, 0.05, 3, torch.quint8)
        given = {"input": self.x, "scale": scale, "zero_point": zero}
        refrun.assert_kernel("quantize", given, q.int_repr(), format="uint8", rule="given")
        refrun.assert_kernel("dequantize", [q.int_repr(), scale, zero], q.dequantize(), format="uint8")
        r = refrun.check_kernel("quantize", given, torch.round(self.x / scale).clamp(0, 255).to(torch.uint8), format="uint8", rule="given")
        self.assertEqual(r.fault_id, "quantize.zero-point-ignored")

    def test_casts(self):
        x = self.x.numpy()
        for name in ("float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e3m4", "float6_e2m3fn", "float4_e2m1fn"):
            refrun.assert_kernel("quantize", [x], x.astype(getattr(ml_dtypes, name)), format=name, cast="ml_dtypes")
        refrun.assert_kernel("quantize", [self.x], self.x.to(torch.float8_e5m2), format="float8_e5m2", cast="torch")

    def test_operands_of_8_bits(self):
        a, b = self.x.to(torch.float8_e4m3fn), torch.randn(96, 40).to(torch.float8_e5m2)
        refrun.assert_kernel("matmul", [a, b], (a.float() @ b.float()).bfloat16())

    def test_products(self):
        a, b = self.x[:32].to(torch.float8_e4m3fn), torch.randn(48, 96).to(torch.float8_e5m2).t()
        sa, sb = torch.tensor(0.37), torch.tensor(1.7)
        for out in (torch.float32, torch.bfloat16, torch.float16, None):
            r = refrun.assert_kernel("scaled_mm", [a, b, sa, sb], torch._scaled_mm(a, b, sa, sb, out_dtype=out))
            self.assertIn("scales on", r.form)
        r = refrun.check_kernel("scaled_mm", [a, b, sa, sb], (a.float() @ b.float() * sa).bfloat16())
        self.assertEqual(r.fault_id, "quantize.scale-missing:other")
        codes, scale = mx(self.x)
        back = (codes.float().unflatten(-1, (-1, 32)) * scale.float()[..., None]).flatten(-2)
        refrun.assert_kernel("scaled_mm", [codes, codes.t(), scale, scale.t()], back @ back.t())

    def test_bad_input(self):
        codes, scale = mx(self.x)
        for why, output, attributes in (("format: ", (codes, scale), {"format": "mxfp9"}), ("scale: shape ", (codes, scale[:3]), {"format": "mxfp8_e4m3"}),
                                        ("scale: dtype F32", (codes, scale.float()), {"format": "mxfp8_e4m3"}), ("4 tensors: want", (codes,) * 4, {"format": "mxfp8_e4m3"}),
                                        ("store: says nothing", (codes, scale), {"format": "mxfp8_e4m3", "store": "float16"})):
            with self.assertRaises(ValueError) as e:
                refrun.check_kernel("quantize", [self.x], output, **attributes)
            self.assertIn(why, str(e.exception))
            self.assertNotIn("\n", str(e.exception))


if __name__ == "__main__":
    unittest.main()
