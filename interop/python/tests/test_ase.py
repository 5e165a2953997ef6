"""refrun.ase: exact forces and stresses of a potential, and what is said of a device's."""

import importlib.util
import unittest


@unittest.skipUnless(importlib.util.find_spec("ase"), "ASE is not installed")
class Calculator(unittest.TestCase):
    def setUp(self):
        import torch
        from ase.build import bulk, molecule

        import refrun.ase

        def energy(positions, shifts, edges, cutoff):
            d = (positions[edges[1]] - positions[edges[0]] + shifts).norm(dim=-1)
            return torch.exp(-d) * (1 - d / cutoff) ** 3

        def inputs(atoms):
            edges, _, shifts = refrun.ase.neighbours(atoms, 3.0)
            return {"positions": torch.from_numpy(atoms.positions), "shifts": shifts, "edges": edges, "cutoff": torch.tensor(3.0, dtype=torch.float64)}

        self.torch, self.energy, self.inputs = torch, energy, inputs
        self.molecule, self.crystal = molecule("CH3CH2OH"), bulk("C", "diamond", a=3.6, cubic=True)
        self.crystal.rattle(0.05, seed=1)
        self.calculator = refrun.ase.Calculator(energy, inputs)
        self.addCleanup(self.calculator.close)

    def device(self, atoms, dtype, wrong=lambda given: given):
        """The atoms with what torch says of them."""
        from ase.calculators.singlepoint import SinglePointCalculator

        given = {k: v.to(dtype) if v.is_floating_point() else v for k, v in wrong(self.inputs(atoms)).items()}
        given["positions"].requires_grad_(True)
        e = self.energy(**given).sum()
        (g,) = self.torch.autograd.grad(e, given["positions"])
        atoms = atoms.copy()
        atoms.calc = SinglePointCalculator(atoms, energy=float(e), forces=-g.double().numpy())
        return atoms

    def test_exact(self):
        import numpy as np

        for atoms in (self.molecule, self.crystal):
            want = self.device(atoms, self.torch.float64)
            atoms.calc = self.calculator
            self.assertAlmostEqual(atoms.get_potential_energy() / want.get_potential_energy(), 1, delta=1e-14)
            np.testing.assert_allclose(atoms.get_forces(), want.get_forces(), rtol=0, atol=1e-13)
        stress, h = atoms.get_stress(), 1e-5
        for k, (i, j) in enumerate(((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))):
            ends = []
            for sign in (1, -1):
                strain = np.eye(3)
                strain[i, j] += sign * h
                other = atoms.copy()
                other.set_cell(atoms.cell[:] @ strain, scale_atoms=True)
                other.calc = self.calculator
                ends.append(other.get_potential_energy())
            self.assertAlmostEqual(stress[k], (ends[0] - ends[1]) / (2 * h * atoms.get_volume()), delta=1e-8)

    def test_check(self):
        def cut(given):
            return {**given, "cutoff": given["cutoff"] - 0.5}

        def shifted(given):
            return {**given, "edges": given["edges"].roll(1, 1)}

        for dtype, said in ((self.torch.float64, "float64"), (self.torch.float32, "float32")):
            for wrong, verdict in ((lambda given: given, "PASS"), (cut, "FAIL"), (shifted, "FAIL")):
                r = self.calculator.check(self.device(self.crystal, dtype, wrong), precision=said)
                self.assertEqual(r.verdict, verdict, f"{said}: {r}")

    def test_refused(self):
        import refrun.ase

        with self.assertRaisesRegex(ValueError, "want positions among them"):
            self.crystal.calc = refrun.ase.Calculator(self.energy, lambda atoms: {"x": self.torch.ones(3)})
            self.crystal.get_potential_energy()


if __name__ == "__main__":
    unittest.main()
