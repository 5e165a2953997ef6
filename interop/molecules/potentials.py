"""MACE and SevenNet with random weights through refrun's ASE calculator, and what it says of right and wrong devices.

    pip install mace-torch==0.3.16 && python potentials.py mace
    pip install sevenn==0.13.0     && python potentials.py sevennet

They want different versions of e3nn, so that each has an environment of its own. The device is the package's own
calculator. In float64 its energies and forces must agree with refrun's to 1e-10, of the largest. A device in which a term
is detached from the forces, or whose cutoff is wrong, must fail the check. One line of JSON says what was found; the
exit code is 1 if it is not that.
"""

import argparse
import importlib
import json
import sys
import warnings

import numpy as np
import torch
from ase.build import bulk, molecule

warnings.filterwarnings("ignore")
CUTOFF = 4.0


def mace(cutoff, dtype):
    from e3nn import o3
    from mace import modules

    block = modules.interaction_classes["RealAgnosticResidualInteractionBlock"]
    sizes = dict(num_bessel=8, num_polynomial_cutoff=5, max_ell=2, num_interactions=2, correlation=3, avg_num_neighbors=4)
    irreps = dict(hidden_irreps=o3.Irreps("8x0e + 8x1o"), MLP_irreps=o3.Irreps("8x0e"), gate=torch.nn.functional.silu)
    atoms = dict(num_elements=3, atomic_numbers=[1, 6, 8], atomic_energies=np.array([-1.0, -2.0, -3.0]))
    return modules.MACE(r_max=cutoff, interaction_cls=block, interaction_cls_first=block, **sizes, **irreps, **atoms)


def mace_device(model, dtype):
    from mace.calculators import MACECalculator

    return MACECalculator(models=[model], device="cpu", default_dtype=str(dtype).split(".")[1])


def mace_part(model):
    """The messages of the second layer, which a device may have detached."""
    return model.interactions[1]


def sevennet(cutoff, dtype):
    import sevenn._const as const
    from sevenn.model_build import build_E3_equivariant_model
    from sevenn.util import dtype_correct

    dtype_correct.__defaults__ = (dtype, torch.int64)  # SevenNet itself has float32 alone
    config = {**const.DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG, **const.DEFAULT_DATA_CONFIG, "cutoff": cutoff, "channel": 8, "lmax": 1}
    config |= {"num_convolution_layer": 2, "weight_nn_hidden_neurons": [16], "shift": -1.0, "scale": 2.0, "conv_denominator": 4.0}
    config |= {"chemical_species": ["H", "C", "O"], "_type_map": {1: 0, 6: 1, 8: 2}, "_number_of_species": 3}
    model = build_E3_equivariant_model(config).to(dtype)

    def widen(_module, _args, data):
        data.update({k: v.to(dtype) for k, v in data.items() if torch.is_tensor(v) and v.is_floating_point()})
        return data

    model.onehot_idx_to_onehot.register_forward_hook(widen)
    return model


def sevennet_device(model, dtype):
    from sevenn.calculator import SevenNetCalculator

    return SevenNetCalculator(model, file_type="model_instance", device="cpu")


def sevennet_part(model):
    return model._modules["1_convolution"].weight_nn


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("package", choices=("mace", "sevennet"))
    package = p.parse_args().package
    importlib.import_module({"mace": "mace", "sevennet": "sevenn"}[package])  # first: it says how e3nn loads its tables
    import e3nn
    import refrun.ase

    e3nn.set_optimization_defaults(jit_script_fx=False)

    here = globals()
    make, device, part = here[package], here[package + "_device"], here[package + "_part"]

    def made(dtype, cutoff=CUTOFF):
        torch.set_default_dtype(dtype)
        torch.manual_seed(0)
        return make(cutoff, dtype)

    def run(atoms, model, dtype):
        torch.set_default_dtype(dtype)
        atoms = atoms.copy()
        atoms.calc = device(model, dtype)
        return atoms, atoms.get_potential_energy(), atoms.get_forces()

    ethanol = molecule("CH3CH2OH")
    ethanol.rattle(0.05, seed=1)
    diamond = bulk("C", "diamond", a=3.6, cubic=True)
    diamond.rattle(0.05, seed=1)
    found, right = {"package": package}, True
    torch.set_num_threads(1)
    wide = made(torch.float64)
    for name, atoms in (("ethanol", ethanol), ("diamond", diamond)):
        ours = atoms.copy()
        ours.calc = refrun.ase.__dict__[package](wide)
        e, f = ours.get_potential_energy(), ours.get_forces()
        theirs, energy, forces = run(atoms, wide, torch.float64)
        apart = [abs(e - energy) / abs(energy), float(np.abs(f - forces).max() / np.abs(forces).max())]
        if name == "diamond":
            stress = theirs.get_stress()
            apart.append(float(np.abs(ours.get_stress() - stress).max() / np.abs(stress).max()))
        found[name] = apart
        right &= max(apart) < 1e-10
        ours.calc.close()

    for dtype in (torch.float64, torch.float32):
        said = str(dtype).split(".")[1]
        model = made(dtype)
        ours = refrun.ase.__dict__[package](model)
        devices = {"right": run(ethanol, model, dtype)[0], "wrong cutoff": run(ethanol, made(dtype, CUTOFF - 0.5), dtype)[0]}
        hook = part(model).register_forward_hook(lambda _m, _a, y: tuple(v if v is None else v.detach() for v in y) if isinstance(y, tuple) else y.detach())
        devices["detached term"] = run(ethanol, model, dtype)[0]
        hook.remove()
        for name, atoms in devices.items():
            r = ours.check(atoms, precision=said)
            found[f"{name}, {said}"] = r.verdict
            right &= r.verdict == ("PASS" if name == "right" else "FAIL")
        ours.close()
    print(json.dumps(found))
    sys.exit(not right)


if __name__ == "__main__":
    main()
