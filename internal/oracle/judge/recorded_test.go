package judge

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/graph"
	"github.com/refrun/refrun/internal/judges/share"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// recorded is one kernel of testdata.
type recorded struct {
	File, Op string
	Attrs    json.RawMessage
	Points   []string `json:"rounding_points"`
	Schedule struct {
		BlockKeys int `json:"block_keys"`
	}
	question Question
}

func readRecorded(t *testing.T) map[string]*recorded {
	b, err := os.ReadFile(filepath.Join("testdata", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]*recorded
	if err := json.Unmarshal(b, &index); err != nil {
		t.Fatal(err)
	}
	for name, c := range index {
		f, err := safetensors.Open(filepath.Join("testdata", c.File))
		if err != nil {
			t.Fatal(err)
		}
		names := slices.DeleteFunc(slices.Clone(f.Names()), func(n string) bool { return n == "output" })
		g, order, err := Kernel(c.Op, c.Attrs, names)
		if err != nil {
			t.Fatal(name, err)
		}
		c.question = Question{Graph: g, Output: readTensor(t, f, "output")}
		for _, n := range order {
			c.question.Inputs = append(c.question.Inputs, readTensor(t, f, n))
		}
	}
	return index
}

// answers has what Check says of recorded kernels as they are, by their names.
var answers = map[string]*Report{}

// answer is what Check says of the kernel as it is, asked once.
func (c *recorded) answer(t *testing.T, name string) *Report {
	t.Helper()
	if answers[name] == nil {
		r, err := Check(c.question)
		if err != nil {
			t.Fatal(name, err)
		}
		answers[name] = r
	}
	return answers[name]
}

// wrongs has what Check says of recorded kernels times 1.01, by their names.
var wrongs = map[string]*Report{}

// wrong is the question about the kernel's output times 1.01, and what Check says of it, asked once.
func (c *recorded) wrong(t *testing.T, name string) (Question, *Report) {
	t.Helper()
	q := c.question
	q.Output = q.Output.Clone()
	for k, v := range q.Output.Data {
		q.Output.Data[k] = q.Output.Format.Round(v * 1.01)
	}
	if wrongs[name] == nil {
		r, err := Check(q)
		if err != nil {
			t.Fatal(name, err)
		}
		wrongs[name] = r
	}
	return q, wrongs[name]
}

func readTensor(t *testing.T, f *safetensors.File, name string) *tensor.Tensor {
	x, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	var v []float64
	if x.DType == "I64" {
		whole, err := x.Int64s()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range whole {
			v = append(v, float64(w))
		}
		return tensor.Of(fp16.Int64, v, x.Shape...)
	}
	if v, err = x.Float64s(); err != nil {
		t.Fatal(err)
	}
	format := map[safetensors.DType]fp16.Format{"F64": fp16.Float64, "F32": fp16.Float32, "F16": fp16.Float16,
		"BF16": fp16.BFloat16}[x.DType]
	return tensor.Of(format, v, x.Shape...)
}

// TestRecorded: what right kernels returned passes, with the contract claimed and with it found, and the
// steps that were found to be rounded are those that are.
func TestRecorded(t *testing.T) {
	for name, c := range readRecorded(t) {
		r := c.answer(t, name)
		if r.Verdict != Pass || !slices.Equal(r.Contract.Round, c.Points) {
			t.Errorf("%s: %s %s %s, contract %v: want PASS, rounded %v",
				name, r.Verdict, r.Reason, r.Fault, r.Contract, c.Points)
		}
		claimed := c.question
		claimed.Claimed = &Contract{Round: c.Points}
		if slices.Contains(c.Points, "probabilities_unnormalized") {
			claimed.Claimed.Form = Form{Online: true, BlockKeys: c.Schedule.BlockKeys}
		}
		if r, err := Check(claimed); err != nil || r.Verdict != Pass {
			t.Errorf("%s as claimed: %v %v", name, r, err)
		}
	}
}

// TestBrief: a brief answer has the verdict of the long one, and is the same of what passes.
func TestBrief(t *testing.T) {
	failed := 0
	all := readRecorded(t)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if !share.All() && i%4 > 1 {
			continue
		}
		q, want := all[name].question, (*Report)(nil)
		if i%2 > 0 {
			q, want = all[name].wrong(t, name)
		} else {
			want = all[name].answer(t, name)
		}
		q.Brief = true
		got, err := Check(q)
		if err != nil || got.Verdict != want.Verdict || want.Verdict != Fail && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v: want %+v", name, got, err, want)
		}
		if got.Verdict == Fail {
			failed++
		}
		if got.Fault != "" {
			t.Errorf("%s: %q: want no cause", name, got.Fault)
		}
	}
	if failed == 0 || failed == len(all) {
		t.Errorf("%d of %d fail: want some", failed, len(all))
	}
}

// TestDegenerate: zeros, a constant and the input itself never pass, of any recorded kernel.
func TestDegenerate(t *testing.T) {
	for name, c := range readRecorded(t) {
		for what, of := range map[string]func(i int) float64{
			"zeros": func(int) float64 { return 0 },
			"ones":  func(int) float64 { return 1 },
			"input": func(i int) float64 { return c.question.Inputs[0].Data[i%len(c.question.Inputs[0].Data)] },
		} {
			q := c.question
			q.Output = tensor.New(q.Output.Format, q.Output.Shape...)
			for i := range q.Output.Data {
				q.Output.Data[i] = q.Output.Format.Round(of(i))
			}
			q.Brief, q.Claimed = true, &Contract{Round: c.Points}
			if slices.Contains(c.Points, "probabilities_unnormalized") {
				q.Claimed.Online = true
			}
			if r, err := Check(q); err != nil || r.Verdict == Pass {
				t.Errorf("%s: %s: %v %v", name, what, r.Verdict, err)
			}
		}
	}
}

// TestPieces: a question that is cut passes and fails as it does whole: figures add up, an element is named
// by its place in the whole, and so is a fault that the first piece does not have.
func TestPieces(t *testing.T) {
	c := readRecorded(t)["matmul_float32"]
	q := c.question
	q.whole, q.Narrow = q.Output.Shape, fp16.Float32
	types, err := q.types()
	if err != nil {
		t.Fatal(err)
	}
	rows := q.Output.Shape[0]
	judge := func(output *tensor.Tensor) *Report {
		q := q
		q.Output = output
		all := q.cut(types, q.perRow(types)*(rows/3))
		if len(all) < 3 || all[1].offset != rows/3*q.Output.Shape[1] {
			t.Fatal(len(all), "pieces")
		}
		first, err := all[0].search()
		if err != nil {
			t.Fatal(err)
		}
		joined, _, err := first.with(all)
		if err != nil {
			t.Fatal(err)
		}
		return q.report(joined)
	}
	whole, err := Check(q)
	if err != nil {
		t.Fatal(err)
	}
	if r := judge(q.Output); r.Verdict != Pass || r.Elements != whole.Elements || r.Flips != whole.Flips ||
		r.Close != whole.Close {
		t.Errorf("%+v: want as %+v", r, whole)
	}
	wrong := q.Output.Clone()
	at := len(wrong.Data) - 3
	wrong.Data[at] = fp16.Float32.Round(1 + wrong.Data[at]*1.01)
	if r := judge(wrong); r.Verdict != Fail || r.Violations != 1 ||
		!slices.Equal(r.Worst.Index, tensor.Index(at, wrong.Shape)) {
		t.Errorf("%+v", r)
	}
	zeros := q.Output.Clone()
	clear(zeros.Data[len(zeros.Data)/2:])
	if r := judge(zeros); r.Verdict != Fail || r.Fault != "the output is zeros" {
		t.Errorf("%+v", r)
	}
}

// TestLone: one number of an output that is off by more than arithmetic allows fails, wherever it is.
func TestLone(t *testing.T) {
	c := readRecorded(t)["matmul_float32"]
	for _, at := range []int{0, 777, len(c.question.Output.Data) - 1} {
		q := c.question
		q.Output = q.Output.Clone()
		q.Output.Data[at] = fp16.Float32.Round(q.Output.Data[at] * (1 + 1e-3))
		r, err := Check(q)
		if err != nil || r.Verdict != Fail || r.Violations != 1 ||
			!slices.Equal(r.Worst.Index, tensor.Index(at, q.Output.Shape)) {
			t.Errorf("element %d: %+v %v", at, r, err)
		}
	}
}

// TestNoPower: of zeros, zeros are right, and say nothing.
func TestNoPower(t *testing.T) {
	g, _, err := Kernel("matmul", nil, []string{"input", "other"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{
		tensor.New(fp16.Float32, 4, 3), tensor.New(fp16.Float32, 3, 2),
	}, Output: tensor.New(fp16.Float32, 4, 2)})
	if err != nil || r.Verdict != NoPower {
		t.Errorf("%+v %v", r, err)
	}
}

// TestSelf: ATen's schemas call the first tensor self.
func TestSelf(t *testing.T) {
	for op, names := range map[string][2]string{"mm": {"mat2 self", "self mat2"}, "softmax": {"self", "self"},
		"layer_norm": {"bias self weight", "self weight bias"}} {
		attributes := map[string]string{"softmax": `{"dim":-1}`, "layer_norm": `{"normalized_shape":[3]}`}[op]
		_, order, err := Kernel(op, []byte(attributes), splitWords(names[0]))
		if err != nil || !slices.Equal(order, splitWords(names[1])) {
			t.Errorf("%s of %s: %v %v", op, names[0], order, err)
		}
	}
}

func TestRefused(t *testing.T) {
	x := tensor.New(fp16.Float32, 4, 3)
	for op, c := range map[string]struct{ attributes, names, want string }{
		"softmx":        {``, "input", "unknown operation"},
		"softmax":       {`{"dim":5}`, "input", "dim: 5: want an axis"},
		"layer_norm":    {`{}`, "input other", "tensors"},
		"matmul":        {``, "input", "no tensor other"},
		"mm":            {``, "other", "no tensor input: want input mat2"},
		"mul":           {``, "input self", "tensors"},
		"topk":          {`{"k":1,"dim":1}`, "input", "outputs: want one"},
		"cross_entropy": {`{"reduction":"median"}`, "input target", "want none, sum or mean"},
	} {
		var names []string
		for _, n := range []string{"input", "self", "other", "target"} {
			if slices.Contains(splitWords(c.names), n) {
				names = append(names, n)
			}
		}
		g, _, err := Kernel(op, []byte(c.attributes), names)
		if err == nil {
			if op == "topk" {
				g.Outputs = append(g.Outputs, g.Outputs[0])
			}
			_, err = Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: x})
		}
		if err == nil || !contains(err.Error(), c.want) {
			t.Errorf("%s: %v: want %q", op, err, c.want)
		}
	}
	g := graph.New(nil)
	in := g.Input("input")
	op, _ := graph.Bind("linalg_vector_norm", []byte(`{"ord":0,"dim":[1]}`))
	g.Outputs = []int{g.Add(op, "output", in)}
	if _, err := Check(Question{Graph: g, Inputs: []*tensor.Tensor{x}, Output: tensor.New(fp16.Float32, 4)}); err ==
		nil || !contains(err.Error(), "not known what right kernels") {
		t.Error(err)
	}
}
