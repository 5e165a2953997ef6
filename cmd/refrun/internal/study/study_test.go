package study

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/refrun/refrun/cmd/refrun/internal/clitest"
	"github.com/refrun/refrun/diff"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/study"
)

// shortStudy runs one that is short.
func shortStudy(t *testing.T, flags ...string) clitest.Result {
	t.Helper()
	return refrun(t, append([]string{"study", "--steps", "8", "--x0", "white:1"}, flags...)...)
}

// TestStudyJSON holds the object to the keys that scripts rely on, and a study
// to what its flags say.
func TestStudyJSON(t *testing.T) {
	file := clitest.StudyFile(t, "", "")
	r := shortStudy(t, "--json", "--config", file)
	if r.Code != 0 || r.Stderr != "" {
		t.Fatalf("exit code %d, stderr %q", r.Code, r.Stderr)
	}
	out := r.Decode(t)
	distance := object{"mean_abs": number, "max_abs": number, "rms_over_std": number, "mean_rel": number}
	clitest.Has(t, "study", out, object{
		"case": word, "contract": word, "mode": word, "noise": word, "isa": word, "threads": number, "seconds": number,
		"steps": number, "realizations": number, "grid": []any{number}, "noise_floor": distance, "horizon": object{},
		"rows": []any{object{"twin": word, "what": word, "mode": word, "end": distance, "horizons": []any{}}},
		"operators": []any{
			object{"mode": word, "std": []any{number}, "twins": []any{object{"name": word, "path": []any{distance}}}},
		},
	})
	for key, want := range map[string]any{
		"steps": 8., "realizations": 2., "noise": "counter", "mode": "float32/state-float32/noise-counter",
		"weight_seeds": nil, "growth_per_step": nil,
	} {
		if got, ok := out[key]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	var twins []string
	for _, row := range out["rows"].([]any) {
		w := row.(map[string]any)
		twins = append(twins, w["twin"].(string))
		if _, ok := out["horizon"].(map[string]any)[twins[len(twins)-1]]; !ok {
			t.Errorf("%v has no horizon", w["twin"])
		}
		if (w["one_step"] == nil) != (w["twin"] == study.Moved) {
			t.Errorf("%v: one step %v", w["twin"], w["one_step"])
		}
	}
	if want := []string{
		"moved", "other", "float64", "float32:fast-7", "tf32", "float16", "bfloat16",
	}; !slices.Equal(twins, want) {
		t.Errorf("twins %q, want %q", twins, want)
	}
	if mode := out["rows"].([]any)[5].(map[string]any)["mode"]; mode !=
		"float16/autocast-cuda/state-float32/noise-counter" {
		t.Errorf("float16 is %v", mode)
	}

	out = shortStudy(t, "--json", "--config", file, "--operator-seeds", "2", "--realizations", "4", "--noise", "none",
		"--autocast", "cpu", "--seed", "9").Decode(t)
	if seeds := out["weight_seeds"].([]any); len(seeds) != 2 || seeds[0] != 1. || seeds[1] != 2. ||
		len(out["operators"].([]any)) != 2 {
		t.Errorf("weight seeds %v", seeds)
	}
	if mode := out["rows"].([]any)[6].(map[string]any)["mode"]; out["realizations"] != 4. ||
		out["noise_floor"] != nil || mode != "bfloat16/autocast-cpu/state-float32/noise-none" {
		t.Errorf("%v realizations, noise floor %v, bfloat16 %v", out["realizations"], out["noise_floor"], mode)
	}

	// A seed of the list is the operator of that seed, wherever it stands.
	list := shortStudy(t, "--json", "--config", file, "--seeds", "7, 1").Decode(t)
	one := shortStudy(t, "--json", "--config", file).Decode(t)
	a, b := list["operators"].([]any)[1].(map[string]any)["twins"].([]any)[4],
		one["operators"].([]any)[0].(map[string]any)["twins"].([]any)[4]
	if x, y := a.(map[string]any)["path"].([]any)[7].(map[string]any),
		b.(map[string]any)["path"].([]any)[7].(map[string]any); x["mean_abs"] != y["mean_abs"] {
		t.Errorf("seed 1 from a list ends at %v, alone at %v", x, y)
	}

	// A recorded case is studied from its start, with all it does not need
	// missing, and its own weights.
	f := clitest.NewFolder(t)
	delete(f.File, "noise")
	delete(f.File, "layers")
	two := slices.Concat(make([]float64, 1200), slices.Repeat([]float64{0.5, 1}, 600))
	// one for each realization
	f.Put("trajectory", clitest.Floats(t, "initial_condition", safetensors.F32, []int{2, 3, 20, 20}, two...))
	r = refrun(t, "study", "--json", "--steps", "8", "--realizations", "1", "--case", f.Write())
	if r.Code != 0 || r.Decode(t)["weight_seeds"] != nil || r.Decode(t)["realizations"] != 1. {
		t.Errorf("exit code %d, %s%.300s", r.Code, r.Stderr, r.Stdout)
	}
}

// TestStudyText: the text has the table and the story.
func TestStudyText(t *testing.T) {
	file := clitest.StudyFile(t, "", "")
	r := shortStudy(t, "--config", file, "--quiet")
	want := `(?s)study.yaml: 2 blocks .*\s+convex\nthe case's own operator, 2 realizations, 8 steps on a 6x6 grid\n` +
		`reference float32/state-float32/noise-counter, contract .*std is\s+\S+\s+to \S+\n.*` +
		`\nstart moved by 1e-6  none +\S+ +\S+ +\S+  not yet\nanother noise seed   \S+ .*\nbfloat16 .*` +
		`\nArithmetic: .* times as far from\nfloat32 as float16.*\nNoise: .*\nGrowth: none ` +
		`was found.*\nHorizon: none within 8 steps`
	if r.Code != 0 || r.Stderr != "" || !regexp.MustCompile(want).MatchString(r.Stdout) {
		t.Errorf("exit code %d, stderr %q, stdout\n%s", r.Code, r.Stderr, r.Stdout)
	}
	if r := shortStudy(t, "--config", file, "--noise", "none"); strings.Contains(r.Stdout, "Noise: ") ||
		!strings.Contains(r.Stdout, "\nstart moved by 0.01  none ") {
		t.Errorf("without noise:\n%s", r.Stdout)
	}
}

// TestStudyStory: the words follow the figures.
func TestStudyStory(t *testing.T) {
	five, nine := 5, 9
	d := func(v diff.Number) study.Distance { return study.Distance{MeanAbs: v} }
	one := func(v diff.Number) *study.Distance { x := d(v); return &x }
	g := diff.Number(1.4)
	r := &studyReport{Steps: 60, NoiseFloor: one(4), GrowthPerStep: &g,
		Rows: []studyRow{
			{Twin: study.Moved, What: "start moved by 1e-6", End: d(3), Horizons: []*int{&five, &nine},
				Measured: []bool{true, true}},
			{Twin: study.Other, What: "another noise seed"},
			{Twin: "float16", OneStep: one(0.5), End: d(3)}, {Twin: "bfloat16", OneStep: one(4), End: d(6)},
		},
		Operators: []*study.Study{
			{Growth: &study.GrowthFit{PerStep: 1.3, From: 4, To: 20}},
			{Growth: &study.GrowthFit{PerStep: 1.5, From: 3, To: 30}},
		},
	}
	says := func(want ...string) {
		t.Helper()
		got := strings.Join(r.story(), "\n")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("does not say %q:\n%s", w, got)
			}
		}
	}
	says("bfloat16 is 8.00 times as far from float32 as float16. At the end of the rollout it is 2.00 times as far.",
		"by 4.00 in one step, 8.00 times float16's error and 1.00 times bfloat16's.",
		"1.40-fold per step (median of 1.30 to 1.50)", "steps 3 to 30.",
		"Horizon: paths lose the reference: start moved by 1e-6 at step 5 to 9.")
	if h := r.Rows[0].Horizons; horizons(h, r.Rows[0].Measured) != "step 5 to 9" || earliest(h) != &five ||
		r.middleHorizon(0) != 7 {
		t.Errorf("horizons %q, %v, %d", horizons(h, r.Rows[0].Measured), earliest(h), r.middleHorizon(0))
	}
	r.Rows[0].Horizons[1], r.Operators[1].Growth = nil, nil
	says("1.40-fold per step with 1 of 2 operators: a fit",
		"start moved by 1e-6 with 1 of 2 operators (step 5, 1 not yet)")
	if h := r.Rows[0].Horizons; horizons(h, r.Rows[0].Measured) != "step 5, 1 not yet" || earliest(h) != &five ||
		r.middleHorizon(0) != 0 {
		t.Errorf("horizons %q, %v, %d", horizons(h, r.Rows[0].Measured), earliest(h), r.middleHorizon(0))
	}
	r.Rows[0].Horizons[0], r.GrowthPerStep = nil, nil
	says("Growth: none was found within 60 steps.", "Horizon: none within 60 steps.", "")
	r.Rows[0].Measured = []bool{true, false}
	says("Horizon: not measured for start moved by 1e-6: after 60 steps another noise seed has not settled")
	if text := strings.Join(r.story(), ""); strings.Contains(text, "none within") ||
		strings.Contains(text, "lose the reference") {
		t.Errorf("says more than is known:\n%s", text)
	}
	if h := r.Rows[0].Horizons; horizons(h, r.Rows[0].Measured) != "1 not yet, 1 not measured" {
		t.Errorf("horizons %q", horizons(h, r.Rows[0].Measured))
	}
	if h := r.Rows[0].Horizons; earliest(h) != nil {
		t.Error("an earliest horizon of none")
	}
	if m := median([]float64{3, 1, 2}); m != 2 || median([]float64{4, 1, 2, 3}) != 2.5 {
		t.Errorf("median %v", m)
	}
}

// TestStudyPicture: an SVG that is XML of the size wanted, names the curves and shows each inside
// the plot, in its colour.
func TestStudyPicture(t *testing.T) {
	file, dir := clitest.StudyFile(t, "", ""), t.TempDir()
	name := filepath.Join(dir, "b.SVG")
	if r := shortStudy(t, "--config", file, "--svg", name); r.Code != 0 ||
		!strings.Contains(r.Stdout, "\npicture written to "+name+"\n") {
		t.Fatalf("exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	name = filepath.Join(dir, "a.svg")
	if r := shortStudy(t, "--json", "--config", file, "--svg", name); r.Code != 0 || r.Decode(t)["picture"] != name {
		t.Fatalf("exit code %d, %s", r.Code, r.Stderr)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(b))
	for err == nil {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if !bytes.HasPrefix(
		b, []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="684pt" height="374.4pt" viewBox="0 0 684 374.4" `),
	) || len(b) > 50<<10 {
		t.Errorf("%d bytes, of them the first are %.120s", len(b), b)
	}
	for twin, c := range twinColour {
		style := fmt.Sprintf(`stroke="#%02x%02x%02x" stroke-width=`, c.R, c.G, c.B)
		path, single := bytes.Count(b, []byte(style+`"2"`)), bytes.Count(b, []byte(style+`"1.3"`))
		if want := map[bool]int{false: 1}[twin == study.Moved]; path != 2 || single != want { // the curve and its legend
			t.Errorf("%s: %d solid lines, %d dashed: want 2 and %d", twin, path, single, want)
		}
		if n := pointsInPlot(t, b, style+`"2"`); n != 8 {
			t.Errorf("%s: %d points of its path are in the plot, want 8", twin, n)
		}
	}
	for _, want := range []string{">step<", ">RMS distance / standard deviation of the state<", ">start moved by 1e-6<",
		">bfloat16<", ">solid: the path<", ">1e-8<", "stroke-dasharray"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("the SVG does not hold %s", want)
		}
	}
}

// pointsInPlot counts the points inside the plot of the polylines of that style.
func pointsInPlot(t *testing.T, svg []byte, style string) (n int) {
	t.Helper()
	for _, m := range regexp.MustCompile(`<polyline points="([^"]*)" fill="none" `+style).FindAllSubmatch(svg, -1) {
		for _, at := range strings.Fields(string(m[1])) {
			var x, y float64
			if _, err := fmt.Sscanf(at, "%g,%g", &x, &y); err != nil {
				t.Fatal(err)
			}
			if x > plotLeft && x <= plotRight && y >= plotTop && y <= plotBottom {
				n++
			}
		}
	}
	return n
}

// TestStudyPictureHorizons: a mark where a path of a chaotic operator ends to
// say something.
func TestStudyPictureHorizons(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.svg")
	file := clitest.StudyFile(t, "num_layers: 1", "num_layers: 4")
	r := refrun(t, "study", "--json", "--config", file, "--x0", "white:1", "--seed", "5", "--realizations", "1",
		"--steps", "60", "--svg", name)
	if r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	marks := 1 // the legend's
	for _, h := range r.Decode(t)["horizon"].(map[string]any) {
		if h != nil {
			marks++
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(b, []byte(`r="4.5"`)); marks < 4 ||
		!bytes.Contains(b, []byte(">horizon: half the distance<")) || got != marks {
		t.Errorf("%d marks, want %d", got, marks)
	}
}

func TestPictureTicks(t *testing.T) {
	for _, k := range []struct {
		ticks []tick
		want  string
	}{
		{stepTicks(0, 60), "0 10 20 30 40 50 60"}, {stepTicks(0, 8), "0 1 2 3 4 5 6 7 8"},
		{stepTicks(0, 499), "0 100 200 300 400"},
		{decadeTicks(-2, 1), "1e-2 1e-1 1 1e+1"},
	} {
		var labels []string
		for _, tick := range k.ticks {
			if tick.label != "" {
				labels = append(labels, tick.label)
			}
		}
		if got := strings.Join(labels, " "); got != k.want {
			t.Errorf("ticks %q, want %q", got, k.want)
		}
	}
}

// TestStudyFullDisk: a picture that cannot be written does not take the study along.
func TestStudyFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	picture := filepath.Join(t.TempDir(), "full.svg")
	if err := os.Symlink("/dev/full", picture); err != nil {
		t.Fatal(err)
	}
	r := refrun(t, "study", "--config", clitest.StudyFile(t, "", ""), "--x0", "white:1", "--steps", "8", "--svg", picture)
	if r.Code != 2 || r.Stderr != "refrun study: --svg: "+picture+": no space left on device\n" ||
		!strings.Contains(r.Stdout, "\nMean absolute difference") || strings.Contains(r.Stdout, "picture written") {
		t.Errorf("exit code %d, stderr %q, stdout\n%s", r.Code, r.Stderr, r.Stdout)
	}
}

// TestStudyFlags: one line for what is wrong, and nothing done.
func TestStudyFlags(t *testing.T) {
	file := clitest.StudyFile(t, "", "")
	for _, k := range []struct {
		args []string
		want string
	}{
		{nil, "--case: want the folder of a case, or --config FILE, one of them"},
		{[]string{"--case", "x", "--config", file}, "--case: want the folder of a case, or --config FILE, one of them"},
		{[]string{"--case", "no-such-case"},
			"no-such-case/case.json: no such file or directory: want a case folder with a case.json"},
		{[]string{"--config", file, "--steps", "7"}, "--steps: 7: want 8 or more"},
		{[]string{"--config", file, "--steps", "-1"}, "--steps: -1: want 8 or more"},
		{[]string{"--config", file, "--horizon", "20"}, "--horizon: want --budget as well"},
		{[]string{"--config", file, "--horizon", "0", "--budget", "1%"}, "--horizon: 0: want 1 or more"},
		{[]string{"--config", file, "--horizon", "7", "--budget", "1%"}, "--horizon: 7: want 8 or more"},
		{[]string{"--config", file, "--horizon", "20", "--steps", "20", "--budget", "1%"},
			"--horizon: want it or --steps, one of them"},
		{[]string{"--config", file, "--budget", "1"}, `--budget: "1": want a share of the std, such as ...`},
		{[]string{"--config", file, "--budget", "-1 % of std"},
			`--budget: "-1 % of std": want a share of the std, ...`},
		{[]string{"--config", file, "--budget", "1e400%"}, `--budget: "1e400%": want a share of the std, ...`},
		{[]string{"--config", file, "--realizations", "-1"}, "--realizations: -1: want 1 or more"},
		{[]string{"--config", file, "--realizations", "0"}, "--realizations: 0: want 1 or more"},
		{[]string{"--config", file, "--operator-seeds", "0"}, "--operator-seeds: 0: want 1 or more"},
		{[]string{"--config", file, "--operator-seeds", "-1"}, "--operator-seeds: -1: want 1 to 1000"},
		{[]string{"--config", file, "--operator-seeds", "2", "--seeds", "1"},
			"--seeds: want it or --operator-seeds, one of them"},
		{[]string{"--config", file, "--seeds", "1,x"}, `--seeds: "x": want an integer of 64 bits, or several with commas`},
		{[]string{"--config", file, "--seeds", "1", "--weights", "w"},
			"--weights: want it or --operator-seeds or --seeds, one of them"},
		{[]string{"--config", clitest.StudyFile(t, "weights_seed: 1", "note: x")},
			"--weights: missing: want a file, or weights_seed in the configuration"},
		{[]string{"--config", clitest.StudyFile(t, "weights_seed: 1", "note: x"), "--operator-seeds", "2"},
			".../study.yaml: weights_seed: missing: want it, or --seeds LIST instead of --operator-seeds"},
		{[]string{"--config", file, "--noise", "tape"},
			"--noise: tape: has no other seed: want counter, torch-cpu, torch-cuda:SMS or none"},
		{[]string{"--config", file, "--noise", "pink"}, `noise: "pink": want ...`},
		{[]string{"--config", file, "--autocast", "tpu"}, `--autocast: unknown autocast "tpu": want ...`},
		{[]string{"--config", file, "--autocast", "cpu:1.13"}, `--autocast: autocast cpu:1.13: has no float16: want ...`},
		{[]string{"--config", file, "--svg", "a.png"}, "--svg: a.png: want a name that ends in .svg"},
		{[]string{"--config", file, "--png", "a.png"},
			"flag provided but not defined: -png: did you mean --svg?; refrun study --help lists the flags"},
		{[]string{"--config", file, "--svg", "no-such-folder/a.svg"},
			"--svg: no-such-folder/a.svg: no such file or directory: want a file in a folder that exists"},
		{[]string{"--config", clitest.StudyFile(t, "num_layers: 1, ", "")},
			".../study.yaml:2: operator.num_layers: missing: want a value"},
		{[]string{"x"}, "x: no such file or directory: want the folder of a case"},
	} {
		args := append([]string{"study", "--x0", "white:1"}, k.args...)
		refrun(t, args...).Refused(t, "study", k.want)
	}
	refrun(t, "study", "--config", file).Refused(t, "study", "--x0: missing: want an initial condition ...")
}

// TestBudget: a path keeps to a share of the std, or leaves it at the step that is told.
func TestBudget(t *testing.T) {
	for text, want := range map[string]diff.Number{
		"1 % of std": 0.01, "1%": 0.01, " 2.5 % of the std ": 0.025, "0.02 of std": 0.02, "1e-3 of the std": 0.001,
	} {
		if got, err := budget(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	r := refrun(t, "study", "--case", filepath.Join(clitest.Root, "testdata/rollouts/seed_small"), "--horizon", "20",
		"--budget", "1 % of std",
		"--realizations", "1", "--json", "--quiet").Decode(t)
	paths := r["operators"].([]any)[0].(map[string]any)["twins"].([]any)
	if r["steps"] != 20. || r["budget"] != 0.01 || len(r["decisions"].([]any)) != 5 {
		t.Fatalf("%v steps, budget %v, %v", r["steps"], r["budget"], r["decisions"])
	}
	good := 0
	for _, x := range r["decisions"].([]any) {
		d := x.(map[string]any)
		at, first, most := d["rms_over_std"].(float64), int(d["step"].(float64)), 0.0
		for _, p := range paths {
			if p := p.(map[string]any); p["name"] == d["twin"] {
				for step, x := range p["path"].([]any) {
					if v := x.(map[string]any)["rms_over_std"].(float64); v > 0.01 && step+1 < first {
						t.Errorf("%v: %v at step %d is beyond the budget, it says %d", d["twin"], v, step+1, first)
					} else if most = max(most, v); step+1 == first && v != at {
						t.Errorf("%v: %v at step %d, it says %v", d["twin"], v, first, at)
					}
				}
			}
		}
		if d["good"] != (most <= 0.01) {
			t.Errorf("%v: at most %v, good %v", d["twin"], most, d["good"])
		}
		if d["good"] == true {
			good++
		}
	}
	if good != 2 { // float32:fast-7 and the start moved by 1e-6
		t.Errorf("%d keep to the budget: want 2: %v", good, r["decisions"])
	}
}

// TestStudyGoesOn: a study of no fixed length takes twice the steps until it is seen how far apart unrelated paths
// stay.
func TestStudyGoesOn(t *testing.T) {
	for _, c := range []struct {
		until int // that it is seen
		more  bool
		want  []int
	}{
		{60, true, []int{60}}, {200, true, []int{60, 120, 240}}, {200, false, []int{60}},
		{1 << 20, true, []int{60, 120, 240, studyMost}},
	} {
		var took []int
		_, err := settled(studySteps, c.more, func(steps int) ([]*study.Study, error) {
			took = append(took, steps)
			return []*study.Study{{Twins: []study.Twin{{Name: study.Other}, {Name: "tf32", Measured: true}}},
				{Twins: []study.Twin{{Name: "tf32", Measured: steps >= c.until}}}}, nil
		})
		if err != nil || !slices.Equal(took, c.want) {
			t.Errorf("seen after %d steps, goes on %v: took %v, %v: want %v", c.until, c.more, took, err, c.want)
		}
	}
}

// TestStudySaysTheSame: how many steps a study of the recorded case takes does not change
// what it says of the first ones.
func TestStudySaysTheSame(t *testing.T) {
	t.Parallel()
	r := refrun(t, "study", "--case", filepath.Join(clitest.Root, "testdata/rollouts/seed_small"), "--steps", "50",
		"--json", "--quiet").Decode(t)
	paths := map[string][]float64{}
	for _, twin := range r["operators"].([]any)[0].(map[string]any)["twins"].([]any) {
		w := twin.(map[string]any)
		for _, d := range w["path"].([]any) {
			paths[w["name"].(string)] = append(paths[w["name"].(string)], d.(map[string]any)["rms_over_std"].(float64))
		}
	}
	horizon := func(twin string, steps int) (int, bool) {
		level, known := study.Saturated(paths[study.Other][:steps])
		return study.Lost(paths[twin][:steps], level, known)
	}
	for _, steps := range []int{45, 50} {
		for twin, want := range map[string]int{"bfloat16": 13, "float16": 18, "tf32": 21} {
			if h, measured := horizon(twin, steps); h != want || !measured {
				t.Errorf("%d steps: the horizon of %s is %v (measured %v), want %v", steps, twin, h, measured, want)
			}
		}
		if h, _ := horizon(study.Moved, steps); h < 42 || h > 43 { // half of a mean over other steps
			t.Errorf("%d steps: the start moved by 1e-6 is lost at %d, want 42 or 43", steps, h)
		}
	}
	if _, measured := horizon("bfloat16", 20); measured {
		t.Error("20 steps: the level of the horizon is known")
	}
	if h, measured := horizon(study.Moved, 20); h != 0 || !measured {
		t.Errorf("20 steps: the start moved by 1e-6 is lost at %d, %v: want none", h, measured)
	}
	for twin, want := range map[string]int{"bfloat16": 13, "float16": 18, "tf32": 21} {
		if h := r["horizon"].(map[string]any)[twin]; h != float64(want) {
			t.Errorf("the report says %v of %s, want %d", h, twin, want)
		}
	}
}
