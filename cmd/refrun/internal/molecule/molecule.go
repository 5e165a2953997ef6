package molecule

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"time"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/model"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/molecule"
	"github.com/refrun/refrun/safetensors"
)

var Verb = cli.Verb{
	Name:    "molecule",
	Args:    "FILE.xyz",
	Summary: "energies and forces of molecules, a network's symmetries, and a check of a device",
	Help: `Evaluates a network for the molecules of an extended XYZ file, as ASE writes them:
energies, and forces as minus their gradient.

The network is an ONNX file that takes atomic numbers and positions (and pairs of
neighbours), or a PyTorch state dict with a configuration:

  {"model": "painn", "cutoff": 5.0}      or painn-filter, or schnet

A table shows the symmetries of the first molecule: whether its energy is invariant
and its forces are equivariant if its atoms are permuted, translated or rotated, and
whether it has the same bits in a batch. With --claim the energies and forces in the
file are judged as those of a device of that precision: docs/MOLECULES.md.

Exit code 0: symmetric, and right if it was judged. 1: not. 2: bad input. 3: NO-POWER.

example: refrun molecule benzene.xyz --model painn.json --weights painn.safetensors -o out.xyz
example: refrun molecule drug.xyz --onnx student.onnx
example: refrun molecule device.xyz --model painn.json --weights painn.safetensors --claim float32`,
	Run: runMolecule,
}

// moleculeFlags are the flags of the verb.
type moleculeFlags struct {
	config, weights, pairs     string
	onnx, graph                string
	cutoff                     float64
	precision, autocast, claim string
	out                        string
	force                      bool
}

// moleculeReport is the verb's JSON.
type moleculeReport struct {
	File      string        `json:"file"`
	Network   string        `json:"network"`
	Mode      string        `json:"mode"`
	Contract  string        `json:"contract"`
	Molecules []moleculeRow `json:"molecules"`
	// Symmetries are those of the first molecule.
	Symmetries []molecule.Symmetry `json:"symmetries"`
	// Overwritten are nodes that put several numbers to one place, of which one stays, and Permuted
	// is by how much atoms in another order change the energy if they are added instead.
	Overwritten []string         `json:"overwritten,omitempty"`
	Permuted    *float64         `json:"permuted_if_added,omitempty"`
	NoKernel    []string         `json:"no_kernel_in_onnx_runtime,omitempty"`
	Check       *molecule.Report `json:"check,omitempty"`
	Output      string           `json:"output,omitempty"`
	Seconds     float64          `json:"seconds"` // of energies and forces
	ISA         string           `json:"isa"`
	Threads     int              `json:"threads"`
}

// moleculeRow is one molecule of the report. A number that is not finite is absent.
type moleculeRow struct {
	Formula string   `json:"formula"`
	Atoms   int      `json:"atoms"`
	Energy  *float64 `json:"energy"`
	Force   *float64 `json:"largest_force"` // the largest component
}

func runMolecule(c *cli.Command) error {
	f := new(moleculeFlags)
	c.Flags.StringVar(&f.config, "model", "", "JSON `file` of the network's configuration")
	c.Flags.StringVar(&f.weights, "weights", "", "safetensors `file` of its state dict")
	c.Flags.StringVar(&f.onnx, "onnx", "", "ONNX `file` of a network, in place of both")
	c.Flags.StringVar(&f.graph, "graph", "", "`file` of a network as refrun.record of Python writes it, in place of both")
	c.Flags.StringVar(&f.pairs, "pairs", "",
		"safetensors `file` with edges [2,P], the neighbours of the only molecule: who receives, who sends")
	c.Flags.Float64Var(&f.cutoff, "cutoff", 0,
		"`distance` up to which atoms are neighbours, for an ONNX file that takes pairs")
	c.Flags.StringVar(&f.precision, "precision", "",
		"`name` of the arithmetic: float64, float32, tf32, float16 or bfloat16 (default float32)")
	c.Flags.StringVar(&f.autocast, "autocast", "", "`name` of the rules of half precisions: cuda or cpu")
	c.Flags.StringVar(&f.claim, "claim", "",
		"`precision` that the device claims whose energies and forces the file has: check them")
	c.Flags.StringVar(&f.out, "o", "", "extended XYZ `file` to write, with energies and forces")
	c.Flags.BoolVar(&f.force, "force", false, "overwrite the output")
	c.Judges()
	if err := c.Parse(1); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	all, err := readMolecules(c.Pos[0])
	if err != nil {
		return err
	}
	n, done, err := f.network(all)
	if err != nil {
		return err
	}
	defer done()
	r := &moleculeReport{File: c.Pos[0], Network: cmp.Or(f.onnx, f.graph, f.weights), Contract: graph.Contract,
		Output: f.out, ISA: c.Isa, Threads: runtime.GOMAXPROCS(0)}
	if err := f.evaluate(r, n, all); err != nil {
		return fmt.Errorf("%s: %w", r.Network, err)
	}
	if c.Json {
		if err := c.PrintJSON(r); err != nil {
			return err
		}
	}
	c.Print(moleculeText(r))
	return r.answer()
}

// file reports whether the network is a file of its own.
func (f *moleculeFlags) file() bool { return f.onnx != "" || f.graph != "" }

// check refuses flags that do not go together.
func (f *moleculeFlags) check() error {
	switch {
	case !f.file() && (f.config == "" || f.weights == ""):
		return errors.New("--model and --weights: want both, or --onnx")
	case f.file() && (f.config != "" || f.weights != ""):
		return errors.New("--onnx, --graph: a network of its own: want it without --model and --weights")
	case !f.file() && f.cutoff != 0:
		return errors.New("--cutoff: says nothing of a configuration, which has its own: want it with --onnx")
	case !(f.cutoff >= 0) || math.IsInf(f.cutoff, 0):
		return fmt.Errorf("--cutoff: %v: want a positive number", f.cutoff)
	case f.out == "":
		return nil
	}
	if _, err := disk.Lstat(f.out); err == nil && !f.force {
		return fmt.Errorf("-o: %s: exists: want another file, or --force to overwrite it", f.out)
	}
	return nil
}

func readMolecules(path string) ([]*molecule.Molecule, error) {
	data, err := readWhole(path)
	if err != nil {
		return nil, err
	}
	all, err := molecule.ReadXYZ(path, data)
	if err != nil {
		return nil, err
	}
	for k, m := range all {
		if err := m.Finite(); err != nil {
			return nil, fmt.Errorf("%s: molecule %d: %w", path, k, err)
		}
		if len(m.Numbers) == 0 {
			return nil, fmt.Errorf("%s: molecule %d: no atoms: want some", path, k)
		}
	}
	return all, nil
}

// readWhole reads a regular file.
func readWhole(path string) ([]byte, error) {
	f, size, err := fault.OpenRegular(path)
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want an XYZ file", path, c)
		}
		return nil, err
	}
	defer f.Close()
	data := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, size), data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// network opens what the flags name, and returns what closes it.
func (f *moleculeFlags) network(all []*molecule.Molecule) (molecule.Network, func(), error) {
	pairs, err := f.recorded(all)
	if err != nil {
		return nil, nil, err
	}
	if f.file() {
		return f.openFile(pairs)
	}
	data, err := readWhole(f.config)
	if err != nil {
		return nil, nil, err
	}
	config, sizes, err := molecule.ReadConfig(f.config, data)
	if err != nil {
		return nil, nil, err
	}
	weights, err := safetensors.Open(f.weights)
	if err != nil {
		if c := fault.Cause(err); c != err {
			err = fmt.Errorf("%s: %w: want a safetensors file", f.weights, c)
		}
		return nil, nil, err
	}
	m, err := molecule.New(config, sizes, weights)
	if err != nil || pairs == nil {
		return m, func() {}, err
	}
	return m.With(pairs), func() {}, nil
}

// recorded reads the neighbours of --pairs; nil for none.
func (f *moleculeFlags) recorded(all []*molecule.Molecule) (func(*molecule.Molecule) molecule.Pairs, error) {
	if f.pairs == "" {
		return nil, nil
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("--pairs: %d molecules in the file: want one, whose pairs they are", len(all))
	}
	data, shape, err := model.ReadSafetensors(f.pairs, "edges")
	if err != nil {
		return nil, err
	}
	if len(shape) != 2 || shape[0] != 2 {
		return nil, fmt.Errorf("%s: edges: shape %v: want [2,P]", f.pairs, shape)
	}
	var p molecule.Pairs
	atoms := len(all[0].Numbers)
	for k, v := range data {
		if v < 0 || v >= float64(atoms) || v != math.Trunc(v) {
			return nil, fmt.Errorf("%s: edges: number %d is %v: want an atom, 0 to %d", f.pairs, k, v, atoms-1)
		}
		if k < shape[1] {
			p.I = append(p.I, int(v))
		} else {
			p.J = append(p.J, int(v))
		}
	}
	return func(*molecule.Molecule) molecule.Pairs { return p }, nil
}

// evaluate fills the report.
func (f *moleculeFlags) evaluate(r *moleculeReport, n molecule.Network, all []*molecule.Molecule) error {
	mode, err := graph.ParseMode(cmp.Or(f.precision, "float32"), f.autocast)
	if err != nil {
		return fmt.Errorf("--precision: %w", err)
	}
	r.Mode = mode.String()
	began := time.Now()
	var written []*molecule.Molecule
	for k, m := range all {
		a, err := forces(n, mode, m)
		if err != nil {
			return fmt.Errorf("molecule %d: %w", k, err)
		}
		row := moleculeRow{Formula: m.Formula(), Atoms: len(m.Numbers), Energy: finite(a.Energies[0])}
		largest := 0.0
		for _, v := range a.Forces {
			if largest = max(largest, math.Abs(v)); v != v {
				largest = v
				break
			}
		}
		row.Force = finite(largest)
		r.Molecules = append(r.Molecules, row)
		written = append(written, &molecule.Molecule{
			Numbers: m.Numbers, Positions: m.Positions, Energy: &a.Energies[0], Forces: a.Forces, Info: m.Info,
		})
	}
	r.Seconds = max(time.Since(began), time.Nanosecond).Seconds()
	if err := f.symmetries(r, n, all[0]); err != nil {
		return err
	}
	if f.claim != "" {
		claim, err := graph.ParseMode(f.claim, f.autocast)
		if err != nil {
			return fmt.Errorf("--claim: %w", err)
		}
		if r.Check, err = molecule.Check(n, claim, all); err != nil {
			return err
		}
	}
	if f.out == "" {
		return nil
	}
	if err := disk.Replace(f.out, 0o666,
		func(w io.Writer) error { return molecule.WriteXYZ(w, written, mode.Wide()) }); err != nil {
		return fmt.Errorf("-o: %s: %w", f.out, err)
	}
	return nil
}

// symmetries tests the first molecule, where the neighbours are not fixed by --pairs.
func (f *moleculeFlags) symmetries(r *moleculeReport, n molecule.Network, m *molecule.Molecule) (err error) {
	if f.pairs == "" {
		if r.Symmetries, err = molecule.Symmetries(n, m); err != nil {
			return err
		}
	}
	p, err := n.Problem(graph.Mode{Precision: fp16.Float64}, m)
	if err != nil {
		return err
	}
	if of, ok := n.(*onnxNetwork); ok && of.Onnx != nil {
		r.NoKernel = of.Onnx.NoKernel
	}
	if r.Overwritten, err = p.Overwritten(); err != nil || r.Overwritten == nil || f.pairs != "" {
		return err
	}
	d, err := molecule.PermutedIfAdded(n, m)
	r.Permuted = finite(d)
	return err
}

// forces evaluates a network for one molecule.
func forces(n molecule.Network, mode graph.Mode, m *molecule.Molecule) (*molecule.Answer, error) {
	p, err := n.Problem(mode, m)
	if err != nil {
		return nil, err
	}
	return p.Run()
}

// finite returns a number, nil for one that JSON has not.
func finite(v float64) *float64 {
	if v-v != 0 {
		return nil
	}
	return &v
}

// answer is the exit code: a symmetry that does not hold or a device that is not right.
func (r *moleculeReport) answer() error {
	for _, s := range r.Symmetries {
		if !s.Holds && s.Open == "" {
			return cli.ErrFailed
		}
	}
	if r.Check == nil {
		return nil
	}
	switch r.Check.Verdict {
	case molecule.Fail:
		return cli.ErrFailed
	case molecule.NoPower:
		return cli.ErrNoPower
	}
	return nil
}
