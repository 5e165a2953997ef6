"""Bits of whole numbers in functions: masks, shifts and complements."""

import unittest

import torch

import refrun


class Bits(unittest.TestCase):
    def test_bits(self):
        """Bits of whole numbers, masked, shifted and turned; and of truth values."""
        for dtype in (torch.int64, torch.int8, torch.uint8):
            x = torch.arange(0 if dtype == torch.uint8 else -100, 100).to(dtype)
            for f in (lambda a: a & 0x35, lambda a: a & -8, lambda a: 9 | a, lambda a: a ^ 3, lambda a: ~a, lambda a: a << 2, lambda a: a >> 3):
                y = f(x)
                refrun.assert_kernel(f, [x], y)
                y[7] += 1
                self.assertEqual(refrun.check_kernel(f, [x], y).verdict, "FAIL")
        b = torch.arange(60) % 7 > 3
        for f in (lambda a: ~a, lambda a: a & a.roll(1), lambda a: a ^ a.roll(1)):
            refrun.assert_kernel(f, [b], f(b))
        with self.assertRaisesRegex(ValueError, "bits of two tensors"):
            refrun.check_kernel(lambda a, b: a & b, [x, x], x)

    def test_nibbles(self):
        """Numbers of 4 bits, two in a byte, dequantized in a function."""

        def unpacked(q, scale):
            return torch.stack([(q & 15).float() - 8, (q >> 4).float() - 8], -1).flatten(-2) * scale

        r = torch.Generator().manual_seed(1)
        q, scale = torch.randint(0, 256, (32, 16), dtype=torch.uint8, generator=r), torch.rand(32, 1, generator=r)
        refrun.assert_kernel(unpacked, [q, scale], unpacked(q, scale))
        swapped = (q & 15) << 4 | q >> 4
        self.assertEqual(refrun.check_kernel(unpacked, [q, scale], unpacked(swapped, scale)).verdict, "FAIL")


if __name__ == "__main__":
    unittest.main()
