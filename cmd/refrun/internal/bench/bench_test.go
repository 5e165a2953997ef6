package bench

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
)

// quickly makes bench measure two small convolutions only.
func quickly(t *testing.T) {
	all := benchConvs
	benchConvs = []benchConv{{3, 4, 8, 16}, {5, 2, 3, 9}}
	t.Cleanup(func() { benchConvs = all })
}

// config writes an operator whose multiplications are counted below.
func benchConfig(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "op.yaml")
	text := "weights_seed: 3\noperator: {num_layers: 1, base_channels: 4, grid_size: 12, input_channels: " +
		"2, output_channels: 2}\nrollout: {num_timesteps: 2, num_realizations: 1}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBench: the figures of a report follow from each other and from the
// number of operations of the definition.
func TestBench(t *testing.T) {
	quickly(t)
	r := refrun(t, "bench", "--json", "--seconds", "0.005", "--config", benchConfig(t), "--grid", "8", "--batch", "3")
	if r.Code != 0 || r.Stderr != "" {
		t.Fatalf("exit code %d, stderr %q", r.Code, r.Stderr)
	}
	v := r.Decode(t)
	clitest.Has(t, "bench", v, map[string]any{"contract": "", "cpu": "", "isa": "", "build": "", "threads": 0.0,
		"peak_gflops": 0.0, "peak_gflops_one_thread": 0.0, "peak_how": "", "peak_stable": true, "rows": []any{}})
	peak := v["peak_gflops"].(float64)
	if !(peak > 0) || !(v["peak_gflops_one_thread"].(float64) > 0) {
		t.Errorf("peak %v, of one thread %v: want more than 0", peak, v["peak_gflops_one_thread"])
	}
	// Per pixel: 3x3 from 2 to 4, 3x3 from 4 to 4, 1x1 from 4 to 2.
	const operator = 2 * 3 * 64 * (9*2*4 + 9*4*4 + 4*2)
	want := []struct {
		kind, precision string
		flop            float64
	}{
		{"conv", "float32", 2 * 9 * 4 * 8 * 16 * 16}, {"conv", "float32", 2 * 25 * 2 * 3 * 9 * 9},
		{"operator", "float32", operator}, {"operator", "float32:fast-7", operator}, {"operator", "tf32", operator},
		{"operator", "float16/autocast-cuda", operator},
		{"operator", "bfloat16/autocast-cuda", operator}, {"operator", "float64", operator},
	}
	rows := v["rows"].([]any)
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	near := func(what string, got, want float64) {
		if !(math.Abs(got-want) <= 1e-9*want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	for i, w := range want {
		row := rows[i].(map[string]any)
		if row["kind"] != w.kind || row["precision"] != w.precision {
			t.Errorf("row %d is %v %v, want %v %v", i, row["kind"], row["precision"], w.kind, w.precision)
		}
		seconds, gflops := row["seconds"].(float64), row["gflops"].(float64)
		if !(seconds > 0) || !(row["first_seconds"].(float64) > 0) || !(row["calls"].(float64) >= 1) {
			t.Errorf("row %d: %v", i, row)
		}
		near("gflops", gflops, w.flop/seconds/1e9)
		near("of_peak", row["of_peak"].(float64), gflops/peak)
		if w.kind == "operator" {
			near("sample_steps_per_s", row["sample_steps_per_s"].(float64), 3/seconds)
		}
	}
}

// TestBenchText: the same for people, of one precision and the default operator.
func TestBenchText(t *testing.T) {
	quickly(t)
	r := refrun(t, "bench", "--seconds", "0.005", "--grid", "8", "--precision", "bfloat16", "--autocast", "cpu:2.x")
	for _, want := range []string{" GFLOP/s on one thread", "5x5, 2 to 3 at 9x9",
		"5 blocks of 3x3 convolutions, 128 channels at most", "bfloat16/autocast-cpu "} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is not in\n%s", want, r.Stdout)
		}
	}
	if r.Code != 0 || strings.Contains(r.Stdout, "float16/autocast-cuda") {
		t.Errorf("exit code %d, stdout\n%s", r.Code, r.Stdout)
	}
}

// TestBest: it measures on until two of the best agree, and says if they never do.
func TestBest(t *testing.T) {
	for _, k := range []struct {
		rates  []float64
		first  float64
		stable bool
		calls  int
	}{
		{[]float64{10, 9.9, 3, 2, 1}, 10, true, 5},
		{[]float64{5, 6, 7, 8, 9, 10, 9.9}, 10, true, 7},
		{[]float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 512, false, 20},
		{[]float64{10, 10, 20, 1, 1, 19.7}, 20, true, 6},
	} {
		calls := 0
		first, stable := best(func() float64 { calls++; return k.rates[calls-1] })
		if first != k.first || stable != k.stable || calls != k.calls {
			t.Errorf("%v: %v %v after %d, want %v %v after %d", k.rates, first, stable, calls, k.first, k.stable, k.calls)
		}
	}
}

// TestBenchLines: one answer for each line, as soon as it was asked for.
func TestBenchLines(t *testing.T) {
	out, answers := io.Pipe()
	in, questions := io.Pipe()
	cli.Stdin = in
	defer func() { cli.Stdin = os.Stdin }()
	done := make(chan int, 1)
	var stderr strings.Builder
	args := []string{"bench", "--lines", "--config", benchConfig(t), "--grid", "8"}
	go func() {
		done <- cli.Main([]cli.Verb{Verb}, args, answers, &stderr)
		in.Close() // and the test does not wait
		answers.Close()
	}()
	buffer := make([]byte, 64)
	for range 3 {
		if _, err := io.WriteString(questions, "\n"); err != nil {
			t.Fatal(err, <-done, stderr.String())
		}
		n, err := out.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		line, ended := strings.CutSuffix(string(buffer[:n]), "\n")
		if s, err := strconv.ParseFloat(line, 64); err != nil || !ended || !(s > 0) {
			t.Errorf("answer %q: want seconds", buffer[:n])
		}
	}
	questions.Close()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

// TestBenchStates: every step is taken from another state than the last.
func TestBenchStates(t *testing.T) {
	x := benchInputs(2, 3, 4)
	for i := range x {
		a, b := x[i].Data, x[(i+1)%len(x)].Data
		equal := 0
		for j := range a {
			if a[j] == b[j] {
				equal++
			}
		}
		if len(a) != 2*3*4*4 || equal > 1 {
			t.Errorf("inputs %d and the next: %d of %d numbers are equal", i, equal, len(a))
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, k := range []struct{ args, want string }{
		{"--grid -1", "--grid: -1: want 1 to 16384"},
		{"--batch 0", "--batch: 0: want 1 to 16384"},
		{"--batch 16384 --grid 16384", "states of an engine batch: 16384 of 3x16384x16384 numbers: " +
			"want at most 2^31 numbers; --batch or --grid makes them fewer"},
		{"--seconds 0", "--seconds: 0: want more than 0, at most 3600"},
		{"--seconds NaN", "--seconds: NaN: want more than 0, at most 3600"},
		{"--lines --json", "--lines: answers one number a line: want no --json"},
		{"--weights x", "--weights: want --config as well"},
		{"--config nowhere.yaml", "nowhere.yaml: ..."},
		{"--lines --precision double", `--precision: unknown number format "double": want one of ...`},
		{"--autocast cuda", "--autocast: autocast cuda: precision float32 has none: want float16 or bfloat16"},
		{"x", `"x": unexpected argument: want flags only`},
	} {
		refrun(t, append([]string{"bench"}, strings.Fields(k.args)...)...).Refused(t, "bench", k.want)
	}
}
