package molecule

import (
	"bytes"
	"math"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/onnx"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// acetone has ten atoms, as many as the student takes, all of them within its cutoff.
func acetone() *Molecule {
	return &Molecule{Numbers: []int{8, 6, 6, 6, 1, 1, 1, 1, 1, 1}, Positions: []float64{
		0, 0, 1.405, 0, 0, 0.1797, 0, 1.2855, -0.6161, 0, -1.2855, -0.6161, 0.05, 2.1341, 0.0667, 0, -2.1341, 0.0667,
		-0.8815, 1.3311, -1.2643, 0.8815, 1.3311, -1.2643, 0.8815, -1.3311, -1.2643, -0.8815, -1.3311, -1.2643,
	}}
}

// student returns the graph of the file for a molecule, and its weights as a state dict.
func student(t *testing.T, m *Molecule) (*graph.Graph, *safetensors.File) {
	t.Helper()
	file, err := onnx.Open("testdata/student.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	x := tensor.New(fp16.Float32, len(m.Numbers), 3)
	fp16.Float32.RoundSlice(x.Data, m.Positions)
	z := tensor.New(fp16.Int64, len(m.Numbers))
	for i, n := range m.Numbers {
		z.Data[i] = float64(n)
	}
	g, _, err := file.Graph(map[string]onnx.Given{"atomic_numbers": {Value: z}, "positions": {Value: x}})
	if err != nil {
		t.Fatal(err)
	}
	if len(file.NoKernel) != 1 || file.NoKernel[0] != `EyeLike "/EyeLike" of bool` {
		t.Errorf("%q: want the node that ONNX Runtime has no kernel for", file.NoKernel)
	}
	var weights []*safetensors.Tensor
	for _, v := range g.Values {
		if v.Const == nil || v.Const.Format != fp16.Float32 || v.Name == "" || v.Name[0] == '/' || len(v.Const.Shape) == 0 {
			continue
		}
		w, err := safetensors.OfFloat64s(v.Name, safetensors.F32, v.Const.Shape, v.Const.Data)
		if err != nil {
			t.Fatal(err)
		}
		weights = append(weights, w)
	}
	// The last layer's vectors are read by nobody, and the graph is without their matrix.
	unread, err := safetensors.OfFloat64s("interactions.1.update.mixing_matrix", safetensors.F32, []int{3, 3},
		make([]float64, 9))
	if err != nil {
		t.Fatal(err)
	}
	weights = append(weights, unread)
	var b bytes.Buffer
	if err := safetensors.Write(&b, weights, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Parse("student", b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return g, f
}

// The student as its authors' export has it, message by message, is the builder's network with the
// fault of the export: its scatter overwrites. pi and 1e-8 are float32 numbers in the file.
func TestStudent(t *testing.T) {
	x := acetone()
	g, weights := student(t, x)
	m, err := New(Config{PaiNNFilter, 5}, Sizes{Hidden: 32, Radial: 10, Layers: 2}, weights)
	if err != nil {
		t.Fatal(err)
	}
	mode := graph.Mode{}
	of := []graph.Type{{Shape: []int{10}, Format: fp16.Int64}, {Shape: []int{10, 3}, Format: fp16.Float64}}
	g, err = WithForces(g, mode, g.Outputs[0], g.Inputs[1], of...)
	if err != nil {
		t.Fatal(err)
	}
	p := &Problem{Graph: g, Mode: mode, Inputs: m.Batch(x).inputs(mode)[:2], Energies: 0, Forces: 1}
	exported, err := p.Run()
	if err != nil {
		t.Fatal(err)
	}
	q, err := m.problem(mode, m.Batch(x), faultOverwrites)
	if err != nil {
		t.Fatal(err)
	}
	built, err := q.Run()
	if err != nil {
		t.Fatal(err)
	}
	// float32's pi is off by 2.8e-8 of it, and with it angles of the cutoff.
	if d := math.Abs(built.Energies[0] - exported.Energies[0]); !(d <= 1e-7*math.Abs(exported.Energies[0])) {
		t.Errorf("energy %v, exported %v", built.Energies[0], exported.Energies[0])
	}
	if d, size := distance(built.Forces, exported.Forces); !(d <= 1e-6*size) {
		t.Errorf("forces are %.3g off, of size %.3g", d, size)
	}
	right, err := answer(m, mode, x)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(right.Energies[0]-exported.Energies[0]) < 1e-3 {
		t.Errorf("energy %v where messages add up, and %v where they overwrite each other: want different ones",
			right.Energies[0], exported.Energies[0])
	}
	all, err := Symmetries(m, x)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if want := s.Name != "rotation"; s.Holds != want {
			t.Errorf("%+v: holds, want %v: this network mixes x, y and z", s, want)
		}
	}
}
