"""Operations of ATen by name, and in functions, that are taken as what they consist of: right kernels pass, wrong ones fail."""

import unittest

import refrun
import torch
import torch.nn.functional as F

aten = torch.ops.aten


class Named(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(11)
        self.x, self.y = torch.randn(2, 32, 48)
        self.image = torch.randn(2, 3, 12, 16)

    def hold(self, op, inputs, right, wrong, **attributes):
        """What PyTorch returns passes, and each wrong answer fails."""
        r = refrun.check_kernel(op, inputs, right, **attributes)
        self.assertEqual(r.verdict, "PASS", f"{op}: {r}")
        for k, y in enumerate(wrong):
            r = refrun.check_kernel(op, inputs, y, **attributes)
            self.assertEqual(r.verdict, "FAIL", f"{op}, fault {k}: {r}")

    def test_functions(self):
        x, y = self.x, self.y
        wide = 3 * x
        self.hold("frac", [wide], wide.frac(), [wide - wide.floor(), wide - wide.round(), wide.frac().abs()])
        half = (2 * x).round()
        right = torch.heaviside(half, y)
        for op in ("heaviside", torch.heaviside):
            self.hold(op, [half, y], right, [(half > 0).float(), (half >= 0).float(), torch.heaviside(-half, y)])
        self.hold("logit", [x.sigmoid()], x.sigmoid().logit(), [x.sigmoid().log(), x.sigmoid().logit() * 1.001, -x])
        special = torch.where(y > 1, torch.inf, x)
        right = special.nan_to_num()
        self.hold("nan_to_num", [special], right, [special.nan_to_num(posinf=0.0), -right, right.clamp(max=1e38)])

    def test_counts(self):
        ids, weights = torch.randint(0, 20, (500,)), torch.rand(500)
        right = torch.bincount(ids, minlength=24)
        lost = torch.bincount(ids[:-1], minlength=24)
        self.hold("bincount", [ids], right, [lost, right.roll(1), right.clamp(max=1)], minlength=24)
        right = torch.bincount(ids, weights, minlength=24)
        wrong = [torch.bincount(ids[:-9], weights[:-9], minlength=24), right.bfloat16().float(), right.roll(1)]
        self.hold(lambda i, w: torch.bincount(i, w, minlength=24), [ids, weights], right, wrong)
        with self.assertRaisesRegex(ValueError, "want minlength"):
            refrun.check_kernel("bincount", [ids], right)
        right = self.x.histc(10, -2, 2)
        wrong = [self.x.clamp(-2, 2).histc(10, -2, 2), self.x.histc(10, -2.1, 2), right.flip(0)]
        self.hold("histc", [self.x], right, wrong, bins=10, min=-2, max=2)
        ends = torch.arange(41.0)  # numbers at the edges of parts, the last one at the end
        right = ends.histc(8)
        self.hold("histc", [ends], right, [ends[:-1].histc(8, 0, 40), ends.histc(8, 0, 41), right + 1], bins=8)

    def test_edges(self):
        edges, x = (3 * torch.randn(20)).round().sort()[0], (3 * torch.randn(7, 30)).round()
        right, after = (torch.bucketize(x, edges, right=r) for r in (False, True))
        for op, inputs in (("bucketize", [x, edges]), (lambda x, e: torch.searchsorted(e, x.flatten()).view(7, 30), [x, edges])):
            self.hold(op, inputs, right, [after, right + 1, right.roll(1, 0)])
        wrong = [right, after.clamp(max=19), after.roll(1, 0)]
        self.hold(lambda x, e: torch.bucketize(x, e, right=True), [x, edges], after, wrong)
        rows = x.sort(-1)[0]
        right = torch.searchsorted(rows, x[:, :5], side="right")
        wrong = [torch.searchsorted(rows, x[:, :5]), right.flip(0), right - 1]
        self.hold(lambda e, x: torch.searchsorted(e, x, side="right"), [rows, x[:, :5]], right, wrong)

    def test_scattered(self):
        old, ids, src = torch.randn(60, 5), torch.randint(0, 50, (200,)), torch.randn(200, 5)
        each = ids[:, None].expand(200, 5)
        for dtype in (torch.float32, torch.bfloat16):
            x, y = old.to(dtype), src.to(dtype)
            for how in ("mean", "prod"):
                for include in (True, False):
                    # PyTorch on a CPU keeps sums and products of half numbers in half
                    take = lambda y, how, include: x.float().scatter_reduce(0, each, y.float(), how, include_self=include).to(dtype)
                    right = take(y, how, include)
                    wrong = [take(y, how, not include), take(y.roll(1, 0), how, include), take(y, "sum", include)]
                    options = {"dim": 0, "reduce": how, "include_self": include}
                    self.hold("scatter_reduce", [x, each, y], right, wrong, **options)
                    if dtype == torch.float32:
                        self.hold("index_reduce", [x, ids, y], right, wrong, **options)
        right = old.index_reduce(0, ids, src, "amax")
        wrong = [old.index_reduce(0, ids, src, "amin"), src[:60], old.index_reduce(0, ids, src, "amax", include_self=False)]
        self.hold("index_reduce", [old, ids, src], right, wrong, dim=0, reduce="amax", include_self=True)

    def test_backward(self):
        x, image = self.x, self.image
        target, logs = torch.randint(0, 48, (32,)), F.log_softmax(x, 1)
        d, n = torch.randn(()), torch.tensor(31.0)
        target[5] = -100
        take = lambda of, n: aten.nll_loss_backward(d, logs, of, None, 1, -100, n)
        right = take(target, n)
        wrong = [take(target, n + 1), -right, take(target.clamp(min=0), n)]
        given = {"grad_output": d, "self": logs, "target": target, "total_weight": n}
        self.hold("nll_loss_backward", given, right, wrong, reduction=1, ignore_index=-100)
        mask = x > 0
        right = aten.native_dropout_backward(self.y, mask, 1 / 0.7)
        wrong = [self.y * mask, self.y / 0.7, self.y * ~mask / 0.7]
        self.hold("native_dropout_backward", [self.y, mask], right, wrong, scale=1 / 0.7)
        for ceil, padded in ((False, True), (True, False), (True, True)):
            take = lambda d, p: aten.avg_pool2d_backward(d, image, [3, 2], [2, 3], [1, 1], ceil, p, None)
            d = torch.randn_like(F.avg_pool2d(image, [3, 2], [2, 3], [1, 1], ceil, padded))
            right = take(d, padded)
            wrong = [take(d, not padded), right * 6, take(d.roll(1, -1), padded)]
            options = {"kernel_size": [3, 2], "stride": [2, 3], "padding": [1, 1], "ceil_mode": ceil}
            self.hold("avg_pool2d_backward", [d, image], right, wrong, count_include_pad=padded, **options)

    def test_resized(self):
        sizes = {"output_size": [23, 31], "input_size": [2, 3, 12, 16]}
        d = torch.randn(2, 3, 23, 31)
        cases = (("bilinear", False, torch.float32), ("bilinear", True, torch.bfloat16), ("bicubic", False, torch.float32))
        for mode, corners, dtype in cases:
            e = d.to(dtype)
            take = lambda mode, corners: getattr(aten, f"upsample_{mode}2d_backward")(e, *sizes.values(), corners, None, None)
            right, other = take(mode, corners), take("bicubic" if mode == "bilinear" else "bilinear", corners)
            wrong = [take(mode, not corners), other, right.roll(1, 2)]
            self.hold(f"upsample_{mode}2d_backward", [e], right, wrong, align_corners=corners, **sizes)
        right = aten.upsample_nearest2d_backward(d, *sizes.values(), None, None)
        exact = aten._upsample_nearest_exact2d_backward(d, *sizes.values(), None, None)
        self.hold("upsample_nearest2d_backward", [d], right, [exact, right / 4, right.roll(1, 3)], **sizes)
        self.hold("_upsample_nearest_exact2d_backward", [d], exact, [right, exact * 4, exact.flip(2)], **sizes)

    def test_whole(self):
        a, b = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((32, 4096), (4096, 24)))
        right = torch._int_mm(a, b)
        off = right.clone()
        off[3, 4] += 1
        wrong = [off, (a.float() @ b.float()).bfloat16().int(), torch._int_mm(a.clamp(min=-127), b)]
        for op in ("_int_mm", "matmul", torch._int_mm):
            self.hold(op, [a, b], right, wrong, accumulate="int32")
        scale = torch.rand(32, 1)
        of = lambda y: y.float() * scale
        self.hold(lambda a, b, s: torch._int_mm(a, b).float() * s, [a, b, scale], of(right), [of(y) for y in wrong[1:]] + [-of(right)])
        with self.assertRaisesRegex(ValueError, "no input has whole numbers"):
            refrun.check_kernel("matmul", [a.float(), b.float()], right.float(), accumulate="int32")

    def test_fake_quantize(self):
        x = self.x
        take = torch.fake_quantize_per_tensor_affine
        right = take(x, 0.05, 3, 0, 60)
        wrong = [take(x, 0.05, 4, 0, 60), take(x, 0.05, 3, 0, 50), x.clone()]
        options = {"zero_point": 3, "quant_min": 0, "quant_max": 60}
        self.hold("fake_quantize_per_tensor_affine", [x], right, wrong, scale=0.05, **options)
        scale, zero = torch.rand(48) / 10 + 0.01, torch.zeros(48, dtype=torch.int32)
        take = lambda s, low: torch.fake_quantize_per_channel_affine(x, s, zero, 1, low, 127)
        down = torch.clamp((x / scale).floor(), -128, 127) * scale
        right, wrong = take(scale, -128), [take(scale.flip(0), -128), take(scale, 0), down]
        self.hold(lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127), [x, scale, zero], right, wrong)

    def test_narrow(self):
        """Numbers of 8 bits as inputs of a function, and their product."""
        a, b = (x.to(torch.float8_e4m3fn) for x in (self.x, self.y))
        scale = torch.rand(32, 1)
        f = lambda a, s: (a.float() * s).softmax(-1)
        self.hold(f, [a, scale], f(a, scale), [f(a, scale.flip(0)), f(a, scale).roll(1, 1), a.float().softmax(-1)])
        c = self.x.to(torch.float8_e5m2)
        f = lambda c, b: c.to(torch.bfloat16) @ b.to(torch.bfloat16).T
        right = f(c, b)
        self.hold(f, [c, b], right, [right * 1.02, right.roll(1, 1), f(a, b)])
        s, t = torch.tensor(0.5), torch.tensor(0.3)
        f = lambda a, b, s, t: torch._scaled_mm(a, b.T, s, t, out_dtype=torch.bfloat16)
        right = f(a, b, s, t)
        later = (a.float() @ b.float().T * (s * t)).bfloat16()
        self.hold(f, [a, b, s, t], later, [right * 2, f(a, b, s, s), right.roll(1, 0)])
        self.assertEqual(refrun.check_kernel(f, [a, b, s, t], right).verdict, "PASS")
        with self.assertRaisesRegex(ValueError, "float8_e4m3fn numbers: want"):
            refrun.check_kernel(lambda x: x.to(torch.float8_e4m3fn), [self.x], a.float())

    def test_jvp(self):
        x, v = self.x, self.y
        for f in (F.silu, lambda a: torch.softmax(a, -1), lambda a: F.layer_norm(a, (48,))):
            kernel = lambda x, v: torch.func.jvp(f, (x,), (v,))[1]
            right = kernel(x, v)
            self.hold(kernel, [x, v], right, [right * 1.01, kernel(x.roll(1, 0), v), right.bfloat16().float()])


if __name__ == "__main__":
    unittest.main()
