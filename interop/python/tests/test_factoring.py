"""Factors of matrices and solutions of systems as PyTorch and numpy return them, right and wrong."""

import unittest

import numpy as np
import torch

import refrun

L = torch.linalg


class Factoring(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(49)
        x = torch.randn(2, 24, 24)
        self.x, self.b = x, torch.randn(2, 24, 3)
        self.spd = x @ x.mT + torch.eye(24)
        self.sym = (x + x.mT) / 2
        self.lower = torch.tril(x) + 4 * torch.eye(24)

    def right(self, op, inputs, output, **attributes):
        r = refrun.assert_kernel(op, inputs, output, **attributes)
        self.assertTrue(all(o["verdict"] == "PASS" for o in r.outputs))

    def wrong(self, op, inputs, output, fault=None, **attributes):
        r = refrun.check_kernel(op, inputs, output, **attributes)
        self.assertEqual(r.verdict, "FAIL", str(r))
        if fault:
            self.assertEqual(r.fault_id, fault)

    def test_functions(self):
        for f, x in ((L.cholesky, [self.spd]), (lambda a: L.cholesky(a, upper=True), [self.spd]), (L.cholesky_ex, [self.spd]), (torch.cholesky, [self.spd]),
                     (lambda a: a.cholesky(upper=True), [self.spd]), (L.qr, [self.x]), (lambda a: L.qr(a, "complete"), [self.x[:, :9]]), (lambda a: L.qr(a, mode="r"), [self.x]),
                     (L.eigh, [self.sym]), (lambda a: L.eigh(a, UPLO="U"), [self.sym]), (L.eigvalsh, [self.sym]), (L.solve, [self.x, self.b]), (L.inv, [self.x]),
                     (torch.inverse, [self.x]), (lambda b, a: L.solve(a, b), [self.b, self.x]), (L.svd, [self.x]), (lambda a: L.svd(a, full_matrices=False), [self.x[:, :9]]),
                     (L.svdvals, [self.x]), (lambda a, b: L.solve_triangular(a, b, upper=False, unitriangular=True), [self.lower / 4, self.b]),
                     (lambda b, a: torch.triangular_solve(b, a, upper=False, transpose=True), [self.b, self.lower]),
                     (L.lu, [self.x]), (L.lu, [self.x[:, :9]]), (L.lu_factor, [self.x]), (L.lu_factor_ex, [self.x]), (L.det, [self.x]), (lambda a: a.det(), [self.x]),
                     (L.slogdet, [self.x]), (torch.logdet, [self.spd]), (torch.cholesky_solve, [self.b, self.lower]),
                     (lambda a, b: torch.cholesky_solve(b, a, True), [self.lower.mT.contiguous(), self.b])):
            for wide in (False, True):
                given = [t.double() for t in x] if wide else x
                y = f(*given)
                with self.subTest(f=str(f), wide=wide):
                    self.right(f, given, list(y) if isinstance(y, tuple) else y)

    def test_names(self):
        self.right("linalg_cholesky", [self.spd], L.cholesky(self.spd))
        self.right("cholesky", {"input": self.spd}, L.cholesky(self.spd, upper=True), upper=True)
        self.right("linalg_qr", [self.x], dict(zip("QR", L.qr(self.x))))
        self.right("linalg_eigh", [self.sym], L.eigh(self.sym))
        for upper in (False, True):
            a = self.lower.mT.contiguous() if upper else self.lower
            self.right("solve_triangular", [a, self.b], L.solve_triangular(a, self.b, upper=upper), upper=upper)
            self.right("solve_triangular", [a, self.b.mT], L.solve_triangular(a, self.b.mT, upper=upper, left=False), upper=upper, left=False)

    def test_eliminated(self):
        lu, pivots = L.lu_factor(self.x)
        x = L.lu_solve(lu, pivots, self.b)
        self.right("linalg_lu_solve", [lu, pivots, self.b], x)
        self.right("lu_solve", [self.b, lu, pivots], x)
        self.right(L.lu_solve, [lu, pivots, self.b], x)
        self.right(lambda b, f, p: L.lu_solve(f, p, b, adjoint=True), [self.b, lu, pivots], L.lu_solve(lu, pivots, self.b, adjoint=True))
        self.right("lu", [self.x], L.lu(self.x))
        self.right("slogdet", {"A": self.x}, dict(zip(("sign", "logabsdet"), L.slogdet(self.x))))
        self.wrong("lu_solve", [self.b, lu, pivots], L.lu_solve(lu, torch.arange(1, 25, dtype=torch.int32).expand(2, 24).contiguous(), self.b), "factor.exchanges")
        self.wrong("lu_factor", [self.x], [lu, pivots - 1], "factor.pivot-base")
        tall, low = self.x[:, :, :9].contiguous(), self.x[:, :, :2] @ self.x[:, :2, :9]
        for op in (L.pinv, lambda a: L.pinv(a, rtol=1e-4), lambda a: L.pinv(a, hermitian=False)):
            self.right(op, [tall], op(tall))
        self.right(lambda a: L.pinv(a, rtol=1e-4), [low], L.pinv(low, rtol=1e-4))
        self.right("linalg_pinv", [tall.mT], L.pinv(tall.mT))
        self.wrong("pinv", [tall], L.inv(tall.mT @ tall) @ tall.mT * 1.001)
        for driver in ("gels", "gelsy", "gelsd"):
            self.right(lambda a, b: L.lstsq(a, b, driver=driver), [tall, self.b], L.lstsq(tall, self.b, driver=driver))
        self.right("lstsq", [tall, self.b], L.lstsq(tall, self.b).solution)
        self.wrong("lstsq", [tall, self.b], L.lstsq(tall, self.b).solution * 1.001)
        p, l, u = L.lu(self.x)
        self.wrong(L.lu, [self.x], [p.mT, l, u], "factor.transposed:P")
        self.wrong(L.det, [self.x], L.det(self.x) * 1.001)
        self.wrong("det", [self.x], -L.det(self.x), "factor.exchange-sign")
        sign, log = L.slogdet(self.x)
        self.wrong(L.slogdet, [self.x], [sign, log / 2.302585], "factor.logarithm:10")

    def test_numpy(self):
        x, b, spd, sym = self.x[0], self.b[0], self.spd[0], self.sym[0]
        for op, f, given in (("cholesky", np.linalg.cholesky, [spd]), ("qr", np.linalg.qr, [x]), ("eigh", np.linalg.eigh, [sym]), ("eigvalsh", np.linalg.eigvalsh, [sym]),
                             ("solve", np.linalg.solve, [x, b]), ("inv", np.linalg.inv, [x]), ("svd", np.linalg.svd, [x]), ("det", np.linalg.det, [x]), ("slogdet", np.linalg.slogdet, [x]), ("pinv", np.linalg.pinv, [x[:, :9]])):
            y = f(*(t.numpy() for t in given))
            self.right(op, given, list(y) if isinstance(y, tuple) else y)

    def test_half(self):
        a = self.spd.bfloat16()
        self.right(L.cholesky, [a], L.cholesky(a.float()).bfloat16())
        self.right("qr", [self.x], [t.half() for t in L.qr(self.x)])

    def test_ill_conditioned(self):
        q, _ = L.qr(torch.randn(40, 40, dtype=torch.double))
        a = ((q * torch.logspace(0, -6, 40, dtype=torch.double)) @ q.mT).float()
        a = (a + a.mT) / 2 + 1e-6 * torch.eye(40)
        for f in (L.cholesky, L.qr, L.eigh, L.inv, L.eigvalsh, L.svd):
            y = f(a)
            self.right(f, [a], list(y) if isinstance(y, tuple) else y)
        self.right(L.solve, [a, q[:, :2].float()], L.solve(a, q[:, :2].float()))

    def test_wrong(self):
        y = L.cholesky(self.spd)
        self.wrong(L.cholesky, [self.spd], y.mT, "factor.transposed:the factor")
        bent = y.clone()
        bent[1, 7, 3] *= 1.001
        self.wrong(L.cholesky, [self.spd], bent)
        q, r = L.qr(self.x)
        bent = q.clone()
        bent[0, :, 2] *= -1
        self.wrong(L.qr, [self.x], [bent, r], "factor.column-sign")
        self.wrong(L.qr, [self.x], [q, r.half().float()])
        w, v = L.eigh(self.sym)
        self.wrong(L.eigh, [self.sym], [w, v.flip(-1)], "factor.pairs")
        self.wrong(L.eigh, [self.sym], [w.flip(-1), v.flip(-1)], "factor.order")
        self.wrong(L.eigvalsh, [self.sym], w * 1.001)
        self.wrong(L.solve, [self.x, self.b], L.solve(self.x.mT, self.b), "factor.transposed-solve")
        self.wrong(L.inv, [self.x], L.inv(self.x).bfloat16().float())

    def test_none(self):
        singular = torch.ones(2, 2)
        self.assertIn("singular", refrun.check_kernel(L.inv, [singular], torch.full((2, 2), torch.nan)).reason)
        self.assertIn("not positive definite", refrun.check_kernel(L.cholesky, [-singular], torch.full((2, 2), torch.nan)).reason)
        with self.assertRaisesRegex(ValueError, "linalg_cholesky"):  # what it reads is computed first
            refrun.check_kernel(lambda x: L.cholesky(x @ x.mT), [self.x], self.x)
        with self.assertRaisesRegex(ValueError, "2 of 2|want"):
            refrun.check_kernel("cholesky", [self.spd, self.spd], self.spd)


if __name__ == "__main__":
    unittest.main()
