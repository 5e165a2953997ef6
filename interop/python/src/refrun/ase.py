"""Exact energies, forces and stresses of a network as an ASE calculator, and a check of a device's.

    import refrun.ase

    atoms.calc = refrun.ase.mace(model)          # or sevennet(model), or Calculator(energy, inputs)
    atoms.get_forces()
    print(atoms.calc.check(device_atoms, precision="float32"))
"""

from __future__ import annotations

import copy
import contextlib
import json
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from ase import Atoms, neighborlist
from ase.calculators import calculator
from torch import nn

from .case import CaseError, precision_name
from .check import Report
from .network import Network, describe
from .serve import Server, array, view
from .step import Function

POSITIONS, STRAIN = "positions", "strain"


class _Energy(nn.Module):
    """The energy, one number. With a strain, the vectors in space that it is given are strained first."""

    def __init__(self, energy: Callable[..., torch.Tensor], vectors: Sequence[str]):
        super().__init__()
        self.energy, self.vectors = energy if isinstance(energy, nn.Module) else Function(energy), vectors

    def forward(self, given: Dict[str, torch.Tensor]) -> torch.Tensor:
        given = dict(given)
        strain = given.pop(STRAIN, None)
        if strain is not None:
            both = (strain + strain.T) / 2
            given.update({k: v + v @ both for k, v in given.items() if k in self.vectors})
        return self.energy(**given).sum()


class _Opened(NamedTuple):
    """A network that the process has, and the inputs that it is differentiated by."""

    key: str
    net: Network
    by: List[str]


class Calculator(calculator.Calculator):
    """ASE's calculator of a network's exact energy and forces, and of the stress in a periodic cell.

    `inputs(atoms)` makes the tensors, `energy(**tensors)` is the energy, or several that add up. The tensor "positions"
    [N,3] is one of them, and forces are minus the gradient by it. `vectors` names the tensors that a strain changes,
    lengths in space: "positions", and the periodic shifts of neighbours. `model` is a module that is followed in float64,
    and is left as it was. Tensors of other sizes are another graph, which torch.export makes first.
    """

    implemented_properties = ["energy", "free_energy", "forces", "stress"]

    def __init__(self, energy: Callable[..., torch.Tensor], inputs: Callable[[Atoms], Mapping[str, torch.Tensor]], *, vectors: Sequence[str] = (POSITIONS, "shifts"),
                 precision: Optional[str] = "float64", model: Optional[nn.Module] = None, threads: Optional[int] = None, isa: Optional[str] = None, **options: Any):
        super().__init__(**options)
        self._energy, self._inputs, self._model = _Energy(energy, vectors), inputs, model
        self._precision = precision_name(precision) or "float64"
        self._server = Server(threads=threads, isa=isa)
        self._nets: Dict[str, _Opened] = {}

    def calculate(self, atoms: Optional[Atoms] = None, properties: Sequence[str] = ("energy",), system_changes: Sequence[str] = calculator.all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        given = dict(self._inputs(self.atoms))
        if "stress" in properties:
            given[STRAIN] = torch.zeros(3, 3, dtype=given[POSITIONS].dtype)
        of = self._open(given)
        _, made = self._server.ask({"do": "apply", "id": of.key}, _views(of.net, given))
        self.results["energy"] = self.results["free_energy"] = float(array(made["output0"]).reshape(()))
        gradients = {name: array(made[f"output{k}"]).astype(np.float64) for k, name in enumerate(of.by, 1)}
        self.results["forces"] = -gradients[POSITIONS]
        if STRAIN in gradients:
            self.results["stress"] = (gradients[STRAIN] / self.atoms.get_volume()).reshape(-1)[[0, 4, 8, 5, 2, 1]]

    def check(self, device: Atoms, precision: str = "float32", autocast: Optional[str] = None) -> Report:
        """Holds the energy and forces that atoms have from another calculator to what right devices of a precision return."""
        given = dict(self._inputs(device))
        of = self._open(given)
        views = _views(of.net, given)
        views["energy"] = view(np.array([device.get_potential_energy()], np.float64), "energy")
        views["forces"] = view(np.asarray(device.get_forces(), np.float64), "forces")
        said = {"do": "check", "id": of.key, "claim": precision_name(precision) or "float32", POSITIONS: _name(of.net, given, POSITIONS)}
        data = json.loads(self._server.ask({**said, **({"autocast": autocast} if autocast else {})}, views)[0]["report"])
        return Report(data, _text(data))

    def _open(self, given: Dict[str, torch.Tensor]) -> _Opened:
        """The network for tensors of these sizes."""
        if POSITIONS not in given:
            raise CaseError(f"inputs: {', '.join(given)}: want {POSITIONS} among them")
        key = repr([(k, t.dtype, tuple(t.shape)) for k, t in given.items()])
        of = self._nets.get(key)
        if of is None:
            with _widened(self._model):
                net = describe(self._energy, (given,))
            of = _Opened(str(len(self._nets) % 32), net, [POSITIONS, *([STRAIN] if STRAIN in given else [])])
            self._nets = {k: v for k, v in self._nets.items() if v.key != of.key}
            graph = json.dumps({"version": 1, "inputs": net.inputs, "nodes": net.nodes, "outputs": net.outputs}, allow_nan=False)
            gradients = ",".join(_name(net, given, k) for k in of.by)
            said = {"do": "open", "id": of.key, "graph": graph, "precision": self._precision, "gradients": gradients}
            self._server.ask(said, {k: view(t, k) for k, t in net.weights.items()})
            self._nets[key] = of
        return of

    def close(self) -> None:
        """Ends the process."""
        self._server.close()


def _views(net: Network, given: Dict[str, torch.Tensor]) -> Dict[str, Any]:
    return {k: view(t, k) for k, t in net.feed((given,)).items()}


def _name(net: Network, given: Dict[str, torch.Tensor], key: str) -> str:
    """The name of a tensor in the graph."""
    return str(net.inputs[list(given).index(key)]["name"])


def _text(report: Mapping[str, Any]) -> str:
    lines = [f"VERDICT  {report['verdict']}  {report['claim']}"]
    for of in report["of"]:
        lines.append(f"{of['quantity']:<9}{of['verdict']:<9}RMS error {of['rms']:.3g}, of right devices at most {of['rms_limit']:.3g}; {of['beyond_limit']} numbers are beyond their limits")
    return "\n".join(lines + ([f"fault: {report['fault']}"] if report.get("fault") else []))


def neighbours(atoms: Atoms, cutoff: float) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The pairs of atoms within a cutoff: who sends and who receives [2,P], the cells between them [P,3], and these as lengths."""
    i, j, cells = neighborlist.primitive_neighbor_list("ijS", atoms.pbc, atoms.cell[:], atoms.positions, cutoff)
    shifts = cells.astype(np.float64) @ atoms.cell[:]
    return torch.from_numpy(np.stack([i, j])).long(), torch.from_numpy(cells.astype(np.float64)), torch.from_numpy(shifts)


def mace(model: nn.Module, **options: Any) -> Calculator:
    """The calculator of a MACE model, made with `e3nn.set_optimization_defaults(jit_script_fx=False)`."""
    dtype = next(model.parameters()).dtype
    numbers, cutoff = [int(z) for z in model.atomic_numbers], float(model.r_max)

    def energy(**given: torch.Tensor) -> torch.Tensor:
        return model(given, compute_force=False)["energy"]

    def inputs(atoms: Atoms) -> Dict[str, torch.Tensor]:
        edges, cells, shifts = neighbours(atoms, cutoff)
        kinds = torch.eye(len(numbers), dtype=torch.float64)[_kinds(atoms, numbers)]
        lengths = {"positions": torch.from_numpy(atoms.positions), "shifts": shifts, "cell": torch.from_numpy(atoms.cell[:])}
        return {**{k: t.to(dtype).double() for k, t in lengths.items()}, "unit_shifts": cells, "edge_index": edges, "node_attrs": kinds,
                "batch": torch.zeros(len(atoms), dtype=torch.int64), "ptr": torch.tensor([0, len(atoms)])}

    return Calculator(energy, inputs, model=model, **options)


def sevennet(model: nn.Module, **options: Any) -> Calculator:
    """The calculator of a SevenNet model, made with `e3nn.set_optimization_defaults(jit_script_fx=False)`."""
    numbers = list(model.type_map)
    model.set_is_batch_data(False)

    def energy(positions: torch.Tensor, shifts: torch.Tensor, edge_index: torch.Tensor, atomic_numbers: torch.Tensor) -> torch.Tensor:
        kinds = model._atomic_numbers_to_onehot(atomic_numbers)
        data: Dict[str, Any] = {"atomic_numbers": atomic_numbers, "x": kinds, "edge_index": edge_index, "num_atoms": torch.tensor(len(kinds)),
                                "edge_vec": positions[edge_index[1]] - positions[edge_index[0]] + shifts}
        for name, module in model.named_children():
            if name != "force_output":  # which differentiates
                data = module(data)
                data.update({k: t.double() for k, t in data.items() if torch.is_floating_point(t)})
        return data["inferred_total_energy"]

    def inputs(atoms: Atoms) -> Dict[str, torch.Tensor]:
        _kinds(atoms, numbers)
        edges, _, shifts = neighbours(atoms, float(model.cutoff))
        return {"positions": torch.from_numpy(atoms.positions), "shifts": shifts, "edge_index": edges, "atomic_numbers": torch.from_numpy(atoms.numbers)}

    return Calculator(energy, inputs, model=model, **options)


@contextlib.contextmanager
def _widened(model: Optional[nn.Module]) -> Iterator[None]:
    """Has a model in float64, which holds the same numbers. It is no copy, as e3nn makes TorchScript of copies."""
    if model is None:
        yield
        return
    data = [(p, p.data) for p in model.parameters()]
    buffers = [(m, dict(m._buffers)) for m in model.modules()]
    model.double()
    try:
        yield
    finally:
        for p, of in data:
            p.data = of
        for m, kept in buffers:
            m._buffers.update(kept)


def _kinds(atoms: Atoms, numbers: Sequence[int]) -> List[int]:
    """The places of the atoms' elements in those of a model."""
    for z in atoms.numbers:
        if z not in numbers:
            raise CaseError(f"atomic number {z}: not of the model: want {', '.join(map(str, numbers))}")
    return [list(numbers).index(z) for z in atoms.numbers]
