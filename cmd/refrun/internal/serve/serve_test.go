package serve

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/cmd/refrun/internal/run"
	"github.com/refrun/refrun/safetensors"
)

// TestServeMore: a request that takes more memory than there is is refused in one line of the answer, and the next one
// is served; a message that is longer ends it.
func TestServeMore(t *testing.T) {
	ones := func(name string, shape ...int) *safetensors.Tensor {
		return clitest.ServedTensor(t, name, shape, func(int) float64 { return 1 })
	}
	net := `{"inputs": [{"name": "x", "shape": [1,1]}], "nodes": [{"op": "expand", "name": "a", "in": ["x"], ` +
		`"attributes": {"size": [8192, 8192]}}, {"op": "relu", "name": "y", "in": ["a"]}], "outputs": ["y"]}`
	small := ones("input", 1, 1, 2, 2)
	answers, r := servedWith(t, []string{"--memory", "64MB"}, openServed(t, map[string]string{}),
		message(t, map[string]string{"do": "apply"}, ones("input", 1, 1, 2048, 2048)), message(t, map[string]string{
			"do": "run", "rollout": `{"num_timesteps": 100000, "num_realizations": 100}`,
		}, ones("start", 1, 2, 2)), message(t, map[string]string{"do": "open", "id": "net", "graph": net}),
		message(t, map[string]string{"do": "open", "id": "exact", "graph": net, "precision": "float64"}),
		message(t, map[string]string{"do": "apply", "id": "exact"}, ones("x", 1, 1)),
		message(t, map[string]string{"do": "apply"}, small), binary.LittleEndian.AppendUint64(nil, 1<<30))
	const most = " of memory: want at most 64 MB, which --memory says"
	if r.Code != cli.ExitUsage || r.Stderr != "refrun serve: stdin: a message of 1073741824 bytes: it takes 1.07 GB"+most+
		"\n" || len(answers) != 7 {
		t.Fatalf("exit code %d, %q, %d answers", r.Code, r.Stderr, len(answers))
	}
	for i, want := range []string{"", "input: states of an engine batch: 1 of 1x2048x2048 numbers: a step takes 101 MB",
		"trajectory: [100 100000 1 2 2]: it takes 160 MB", "a: with output [8192 8192] the graph takes 1.07 GB", "",
		"a: with output [8192 8192] the graph takes 537 MB", ""} {
		if want != "" {
			want += most
		}
		if said := answers[i].Metadata["error"]; !strings.HasPrefix(said, want) || want == "" && said != "" {
			t.Errorf("request %d: %q, want %q", i, said, want)
		}
	}
}

// message returns one message as a client writes it.
func message(t *testing.T, said map[string]string, tensors ...*safetensors.Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := send(bufio.NewWriter(&b), tensors, said); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// served runs serve on messages and returns its answers.
func served(t *testing.T, requests ...[]byte) (answers []*safetensors.File, r clitest.Result) {
	t.Helper()
	return servedWith(t, nil, requests...)
}

// servedWith is served, with flags.
func servedWith(t *testing.T, flags []string, requests ...[]byte) (answers []*safetensors.File, r clitest.Result) {
	t.Helper()
	defer func(before io.Reader) { cli.Stdin = before }(cli.Stdin)
	cli.Stdin = bytes.NewReader(bytes.Join(requests, nil))
	r = refrun(t, append([]string{"serve"}, flags...)...)
	in := &messages{r: strings.NewReader(r.Stdout)}
	for {
		f, err := in.next()
		if err != nil {
			if err != io.EOF {
				t.Fatal(err)
			}
			return answers, r
		}
		f, err = safetensors.Parse("answer", bytes.Clone(bytesOf(t, f)))
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, f)
	}
}

// bytesOf writes a file again: the memory of a message is that of the next one.
func bytesOf(t *testing.T, f *safetensors.File) []byte {
	t.Helper()
	var tensors []*safetensors.Tensor
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, x)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, f.Metadata); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A convolution with one weight of 2 and a bias of 1, and noise of scale 0.5 before it.
const servedCase = `{"operator": {"input_channels": 1, "nodes": [
	{"op": "noise", "name": "n", "noise_type": "gaussian", "noise_scale": 0.5},
	{"op": "conv", "name": "c", "out_channels": 1, "kernel_size": 1}]},
	"rollout": {"num_timesteps": 2, "num_realizations": 1, "policy_type": "autoregressive"}}`

func openServed(t *testing.T, said map[string]string) []byte {
	said["do"], said["case"] = "open", servedCase
	one := func(v float64) func(int) float64 { return func(int) float64 { return v } }
	return message(t, said, clitest.ServedTensor(t, "n.noise_scale", []int{1}, one(0.5)),
		clitest.ServedTensor(t, "c.weight", []int{1, 1, 1, 1}, one(2)), clitest.ServedTensor(t, "c.bias", []int{1}, one(1)))
}

// TestServe: an operator is opened and applied, with draws that are given and without.
func TestServe(t *testing.T) {
	x := clitest.ServedTensor(t, "input", []int{2, 1, 2, 3}, func(i int) float64 { return float64(i) })
	z := clitest.ServedTensor(t, "draw0", []int{2, 1, 2, 3}, func(i int) float64 { return float64(i % 2) })
	answers, r := served(t, openServed(t, map[string]string{"noise": "none"}),
		message(t, map[string]string{"do": "apply"}, x), message(t, map[string]string{"do": "apply"}, x, z))
	if r.Code != 0 || r.Stderr != "" || len(answers) != 3 {
		t.Fatalf("exit code %d, %q, %d answers", r.Code, r.Stderr, len(answers))
	}
	if m := answers[0].Metadata; m["mode"] != "float32/state-float32/noise-none" || m["draws"] != "1" ||
		m["contract"] != "1" {
		t.Errorf("opened: %v", m)
	}
	for k, noise := range []float64{0, 1} { // 2 (x + 0.5 z) + 1
		y, err := answers[1+k].Tensor("output")
		if err != nil {
			t.Fatal(answers[1+k].Metadata)
		}
		v, err := y.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		for i := range v {
			if want := 2*float64(i) + 1 + noise*float64(i%2); v[i] != want {
				t.Errorf("answer %d, element %d: %v, want %v", k, i, v[i], want)
			}
		}
	}
}

// TestServeRun: a rollout through serve has the digest of the same one by refrun run.
func TestServeRun(t *testing.T) {
	dir := filepath.Join(clitest.Root, "testdata/rollouts/no_norm_no_noise")
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	want := clitest.Run(t, []cli.Verb{run.Verb}, "run", "--case", dir, "--json", "--noise", "none").Decode(t)
	answers, r := served(t, message(t, map[string]string{"do": "open", "folder": dir, "noise": "none"}),
		message(t, map[string]string{"do": "run"}))
	if r.Code != 0 || len(answers) != 2 || answers[1].Metadata["digest"] != want["digest"] || want["digest"] == "" {
		t.Fatalf("exit code %d, %v: want digest %v", r.Code, answers[1].Metadata, want["digest"])
	}
	y, err := answers[1].Tensor("trajectory")
	if err != nil || len(y.Shape) != 5 {
		t.Errorf("%v: %v", err, answers[1].Names())
	}
}

// TestServeNetwork: a network is opened beside an operator, and evaluated in float32 and float64.
func TestServeNetwork(t *testing.T) {
	const net = `{"inputs": [{"name": "x", "shape": [2, 2]}], "nodes": [{"op": "mul", "name": "y", "in": ["x", ` +
		`"w"]}, {"op": "argmax", "name": "k", "in": ["y"], "attributes": {"dim": 1}}], "outputs": ["y", "k"]}`
	of := func(name string) *safetensors.Tensor {
		return clitest.ServedTensor(t, name, []int{2, 2}, func(i int) float64 { return float64(i) + 0.25 })
	}
	apply := map[string]string{"do": "apply", "id": "net"}
	for _, precision := range []string{"", "float64"} {
		answers, r := served(t, openServed(t, map[string]string{}),
			message(t, map[string]string{"do": "open", "id": "net", "graph": net, "precision": precision}, of("w")),
			message(t, apply, of("x")), message(t, apply), message(t, map[string]string{"do": "run", "id": "net"}),
			message(t, apply, clitest.ServedTensor(t, "x", []int{1}, func(int) float64 { return 1 })))
		if r.Code != 0 || len(answers) != 6 {
			t.Fatalf("exit code %d, %q, %d answers", r.Code, r.Stderr, len(answers))
		}
		y, err := answers[2].Tensor("output0")
		if err != nil {
			t.Fatal(answers[2].Metadata)
		}
		v, err := y.Float64s()
		if err != nil || v[3] != 3.25*3.25 ||
			y.DType != map[string]safetensors.DType{"": safetensors.F32, "float64": safetensors.F64}[precision] {
			t.Errorf("%s: %v %v", precision, v, err)
		}
		k, err := answers[2].Tensor("output1")
		if err != nil {
			t.Fatal(err)
		}
		if w, err := k.Int64s(); err != nil || w[0] != 1 || w[1] != 1 {
			t.Errorf("%v %v", w, err)
		}
		for i, want := range []string{`"x"`, "a network has no steps", "x: shape [1]: want [2 2]"} {
			if said := answers[3+i].Metadata["error"]; !strings.Contains(said, want) {
				t.Errorf("%q, want %q", said, want)
			}
		}
	}
}

// TestServeForces: a network is opened with a gradient, and a device's forces are checked; the energy is the sum of
// (x w)^2, so the force is -2 x w^2.
func TestServeForces(t *testing.T) {
	const net = `{"inputs": [{"name": "x", "shape": [2, 3]}], "nodes": [{"op": "mul", "name": "p", "in": ["x", "w"]},
		{"op": "square", "name": "s", "in": ["p"]}, {"op": "sum", "name": "e", "in": ["s"]}], "outputs": ["e"]}`
	x := func(i int) float64 { return float64(i+1) / 8 }
	w := func(i int) float64 { return 1 + float64(i)/4 }
	energy := func(i int) (e float64) {
		for i := range 6 {
			e += x(i) * w(i) * x(i) * w(i)
		}
		return e
	}
	open := func(gradients string) []byte {
		return message(t, map[string]string{"do": "open", "id": "net", "graph": net, "precision": "float64",
			"gradients": gradients}, clitest.ServedTensor(t, "w", []int{2, 3}, w))
	}
	check := func(positions string, force float64, atoms int) []byte {
		return message(t, map[string]string{"do": "check", "id": "net", "claim": "float32", "positions": positions},
			clitest.ServedTensor(t, "x", []int{2, 3}, x), clitest.ServedTensor(t, "energy", []int{1}, energy),
			clitest.ServedTensor(t, "forces", []int{atoms, 3}, func(i int) float64 { return force * x(i) * w(i) * w(i) }))
	}
	apply := message(t, map[string]string{"do": "apply", "id": "net"}, clitest.ServedTensor(t, "x", []int{2, 3}, x))
	answers, r := served(t, open("x"), apply,
		check("x", -2, 2), check("x", -1, 2), check("y", -2, 2), check("x", -2, 1), open("z"))
	if r.Code != 0 || len(answers) != 7 {
		t.Fatalf("exit code %d, %q, %d answers", r.Code, r.Stderr, len(answers))
	}
	g, err := answers[1].Tensor("output1")
	if err != nil {
		t.Fatal(answers[1].Metadata)
	}
	v, err := g.Float64s()
	if err != nil {
		t.Fatal(err)
	}
	for i := range v {
		if want := 2 * x(i) * w(i) * w(i); v[i] != want {
			t.Errorf("gradient %d: %v, want %v", i, v[i], want)
		}
	}
	for i, want := range []string{`{"verdict":"PASS"`, `{"verdict":"FAIL"`} {
		if said := answers[2+i].Metadata["report"]; !strings.HasPrefix(said, want) {
			t.Errorf("check %d: %v, want %s", i, answers[2+i].Metadata, want)
		}
	}
	for i, want := range []string{
		`positions: "y": no input`, "forces: shape [1 3]: want 6 numbers", `gradients: "z": no input`,
	} {
		if said := answers[4+i].Metadata["error"]; !strings.Contains(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
	}
}

// TestServeRefuses: what is wrong with a request is its answer, and the next one is served; what
// is no message ends it.
func TestServeRefuses(t *testing.T) {
	apply, x := map[string]string{"do": "apply"},
		clitest.ServedTensor(t, "input", []int{1, 1, 2, 2}, func(i int) float64 { return 1 })
	of := func(shape ...int) *safetensors.Tensor {
		return clitest.ServedTensor(t, "input", shape, func(int) float64 { return 1 })
	}
	wide, err := safetensors.OfFloat64s("input", safetensors.F64, []int{1, 1, 1, 1}, []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	draw := clitest.ServedTensor(t, "draw0", []int{1, 2, 2, 2}, func(int) float64 { return 1 })
	answers, r := served(t,
		message(t, apply, x), message(t, map[string]string{"do": "dance"}),
		message(t, map[string]string{"do": "open", "case": "{"}),
		message(t, map[string]string{"do": "open", "folder": "/nowhere"}),
		openServed(t, map[string]string{"precision": "float12"}),
		openServed(t, map[string]string{}), message(t, apply), message(t, apply, of(1, 2, 2)),
		message(t, apply, of(1, 4, 4, 1)), message(t, apply, wide),
		message(t, apply, x, draw), message(t, map[string]string{"do": "run"}),
		message(t, map[string]string{"do": "run", "rollout": `{"num_timesteps": 0}`}),
		message(t, apply, x))
	if r.Code != 0 || len(answers) != 14 {
		t.Fatalf("exit code %d, %q, %d answers", r.Code, r.Stderr, len(answers))
	}
	for i, want := range []string{
		"do: apply: no operator: want open first", `do: "dance": want open, apply, run or check`, "case: ",
		"/nowhere", "precision: unknown number format \"float12\"", "", "input", "input: shape [1 2 2]: want [N,C,H,W]",
		"want [N,1,H,W]; these look like [N,H,W,C]", "input: F64 numbers: want float32",
		"draw0: shape [1 2 2 2]: want [1 1 2 2]", "start: missing", "rollout: num_", "",
	} {
		if said := answers[i].Metadata["error"]; !strings.Contains(said, want) || (want == "") != (said == "") {
			t.Errorf("request %d: %q, want %q", i, said, want)
		}
	}
	long := binary.LittleEndian.AppendUint64(nil, 1<<60)
	for _, bad := range [][]byte{
		{1, 2},
		long,
		binary.LittleEndian.AppendUint64(nil, 100),
		append(binary.LittleEndian.AppendUint64(nil, 3), "abc"...),
	} {
		if _, r := served(t, bad); r.Code != 2 || strings.Count(r.Stderr, "\n") != 1 ||
			!strings.HasPrefix(r.Stderr, "refrun serve: stdin: ") {
			t.Errorf("%v: exit code %d, %q", bad, r.Code, r.Stderr)
		}
	}
}
