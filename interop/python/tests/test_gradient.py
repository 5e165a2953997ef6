"""Gradients of backward kernels, right and wrong, held to what right kernels may return."""

import unittest

import torch
import torch.nn.functional as F

import refrun


def gradients(f, inputs, d):
    """What PyTorch's autograd returns, None for whole numbers."""
    given = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    found = iter(torch.autograd.grad(f(*given), [x for x in given if x.requires_grad], d))
    return [next(found) if x.requires_grad else None for x in given]


class Gradient(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(49)
        self.x, self.w, self.b, self.d = torch.randn(12, 48), torch.randn(48), torch.randn(48), torch.randn(12, 48)

    def norm(self, x, w, b):
        return F.layer_norm(x, [48], w, b)

    def test_by_name(self):
        inputs = [self.x, self.w, self.b]
        grads = gradients(self.norm, inputs, self.d)
        r = refrun.assert_grad("layer_norm", inputs, self.d, grads, normalized_shape=[48])
        self.assertEqual([(o["name"], o["verdict"]) for o in r.outputs], [("input", "PASS"), ("weight", "PASS"), ("bias", "PASS")])
        grads[1] = grads[1] / 2
        with self.assertRaises(AssertionError) as e:
            refrun.assert_grad("layer_norm", inputs, self.d, grads, normalized_shape=[48])
        self.assertIn("grad.weight: FAIL", str(e.exception))
        self.assertEqual(refrun.check_grad("layer_norm", inputs, self.d, grads, normalized_shape=[48]).diagnosis, "the output is times 1/2")

    def test_saved(self):
        _, mean, rstd = torch.native_layer_norm(self.x, [48], self.w, self.b, 1e-5)
        grads = torch.ops.aten.native_layer_norm_backward(self.d, self.x, [48], mean, rstd, self.w, self.b, [True, True, True])
        inputs = {"input": self.x, "weight": self.w, "bias": self.b}
        given = dict(zip(inputs, grads))
        refrun.assert_grad("layer_norm", inputs, self.d, given, saved={"mean": mean, "rstd": rstd}, normalized_shape=[48])
        self.assertEqual(refrun.check_grad("layer_norm", inputs, self.d, given, saved={"mean": mean, "rstd": rstd * 1.01}, normalized_shape=[48]).verdict, "FAIL")

    def test_function(self):
        def f(a, b):
            return F.silu(a) * b

        inputs = [self.x.bfloat16(), self.d.bfloat16()]
        d = torch.randn(12, 48).bfloat16()
        grads = gradients(f, inputs, d)
        refrun.assert_grad(f, inputs, d, grads)
        refrun.assert_grad(f, inputs, d, [grads[0], None])
        self.assertEqual(refrun.check_grad(f, inputs, d, [grads[1], grads[0]]).verdict, "FAIL")

    def test_several_outputs(self):
        def f(a):
            return torch.sigmoid(a), a * 3

        d = [self.d, torch.randn(12, 48)]
        y = self.x.clone().requires_grad_(True)
        (grad,) = torch.autograd.grad(f(y), [y], d)
        refrun.assert_grad(f, [self.x], d, [grad])
        self.assertEqual(refrun.check_grad(f, [self.x], d, [grad - 3 * d[1]]).verdict, "FAIL")  # a path that was lost

    def test_aten(self):
        """ATen's own backward operations pass under their names; the embedding's in bfloat16 keeps its sums in it."""
        aten = torch.ops.aten
        for dt in (torch.float32, torch.bfloat16):
            x, w, b, d = (t.to(dt) for t in (self.x, self.w, self.b, self.d))
            _, mean, rstd = torch.native_layer_norm(x, [48], w, b, 1e-5)
            dx, dw, db = aten.native_layer_norm_backward(d, x, [48], mean, rstd, w, b, [True] * 3)
            narrow = dt != torch.float32  # which keeps the sums of the weights in it
            refrun.assert_kernel("native_layer_norm_backward", [d, x, mean, rstd, w, b], [dx, None, None] if narrow else [dx, dw, db], normalized_shape=[48])
            for op, y in (("softmax", torch.softmax(x, -1)), ("log_softmax", torch.log_softmax(x, -1))):
                refrun.assert_kernel(f"_{op}_backward_data", [d, y], getattr(aten, f"_{op}_backward_data")(d, y, -1, dt), dim=-1)
            for op in ("sigmoid", "tanh"):
                y = getattr(torch, op)(x)
                refrun.assert_kernel(f"{op}_backward", [d, y], getattr(aten, f"{op}_backward")(d, y))
            refrun.assert_kernel("gelu_backward", [d, x], aten.gelu_backward(d, x, approximate="tanh"), approximate="tanh")
            q, k, v, g = torch.randn(4, 2, 2, 20, 16).to(dt)
            out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
            grads = aten._scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, out, lse, 0.0, True)
            refrun.assert_kernel("_scaled_dot_product_flash_attention_for_cpu_backward", [g, q, k, v, out, lse], list(grads), is_causal=True, dropout_p=0.0)
            i = torch.randint(0, 9, (200,))
            g = torch.randn(200, 8).to(dt)
            r = refrun.check_kernel("embedding_dense_backward", [g, i], aten.embedding_dense_backward(g, i, 9, -1, False), num_weights=9, padding_idx=-1)
            self.assertEqual((r.verdict, r.diagnosis), ("FAIL", "sums are kept in bfloat16") if narrow else ("PASS", ""))
        with self.assertRaises(ValueError) as e:
            refrun.check_kernel("gelu_backward", [self.d, self.x, self.x], self.x)
        self.assertIn("want grad_output, self at most", str(e.exception))

    def test_outputs(self):
        """Several outputs of one kernel: of a norm, an attention, and an optimizer's step as a function."""
        y, mean, rstd = torch.native_layer_norm(self.x, [48], self.w, self.b, 1e-5)
        r = refrun.assert_kernel("layer_norm", [self.x, self.w, self.b], {"output": y, "mean": mean, "rstd": rstd[:, 0]}, normalized_shape=[48])
        self.assertEqual([o["name"] for o in r.outputs], ["output", "mean", "rstd"])
        q, k, v = torch.randn(3, 2, 2, 20, 16).bfloat16()
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
        refrun.assert_kernel("scaled_dot_product_attention", [q, k, v], {"output": out, "lse": lse})
        self.assertEqual(refrun.check_kernel("scaled_dot_product_attention", [q, k, v], {"output": out, "lse": lse + 0.01}).verdict, "FAIL")

        def step(p, g, m):
            m = 0.9 * m + 0.1 * g
            return p - 0.01 * m, m

        state = [self.x, self.d, torch.randn(12, 48)]
        p, m = step(*state)
        refrun.assert_kernel(step, state, [p, m])
        r = refrun.check_kernel(step, state, [p, state[2]])  # which forgets to write m
        self.assertEqual([o["verdict"] for o in r.outputs], ["PASS", "FAIL"])

    def test_gradients_inside(self):
        """Functions that take gradients themselves, by torch.func or torch.autograd, are what these consist of."""
        def vjp(x, w, d):
            return torch.func.vjp(lambda x, w: F.layer_norm(x, [48], w), x, w)[1](d)

        def autograd(x, d):
            x = x.detach().requires_grad_(True)
            return torch.autograd.grad(F.gelu(x), x, d)[0]

        for f, inputs in ((vjp, [self.x, self.w, self.d]), (autograd, [self.x, self.d]), (torch.func.grad(lambda x: torch.tanh(x).square().sum()), [self.x])):
            out = f(*inputs)
            out = list(out) if isinstance(out, tuple) else out
            refrun.assert_kernel(f, inputs, out)
            wrong = [out[0] * 2, *out[1:]] if isinstance(out, list) else out * 2
            self.assertEqual(refrun.check_kernel(f, inputs, wrong).verdict, "FAIL")

    def test_computed_elsewhere(self):
        """What a function computes where no trace sees it is refused, and not taken for a constant."""
        for f in (lambda x: torch.from_numpy(x.numpy() * 2), lambda x: x * float(x[0, 0])):
            with self.assertRaises(refrun.UnsupportedLayer):
                refrun.check_kernel(f, [self.x], f(self.x))

    def test_refused(self):
        x, d = self.x, self.d
        for words, args in (
            ("grad.input of shape [12 47]: want [12 48]", ("softmax", [x], d, [x[:, 1:]])),
            ("grad.scale: no input has that name: want one of input", ("softmax", [x], d, {"scale": x})),
            ("grad_output of shape [11 48]: want [12 48]", ("softmax", [x], d[1:], [x])),
            ("no gradient: want grad.NAME", ("softmax", [x], d, [None])),
            ("grads: 2: want one for each of the 1 inputs", ("softmax", [x], d, [x, x])),
            ("unknown operation", ("softmux", [x], d, [x])),
        ):
            with self.assertRaises(ValueError) as e:
                refrun.check_grad(*args, **({"dim": -1} if args[0] == "softmax" else {}))
            self.assertIn(words, str(e.exception))
            self.assertNotIn("\n", str(e.exception))
        r = refrun.check_grad("cumprod", [x], d, [x], dim=1)
        self.assertEqual(r.verdict, "NO-POWER")


if __name__ == "__main__":
    unittest.main()
