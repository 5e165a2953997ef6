package oracle

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/emulate"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
	"github.com/refrun/refrun/tensor"
)

var o2zoo = flag.String("o2zoo", "", "")
var o2only = flag.String("o2only", "", "")
var o2rows = flag.Int("o2rows", 0, "")
var o2every = flag.Int("o2every", 1, "")
var o2off = flag.Int("o2off", 0, "")

func roughStep(e *exam, t int) (*fullStep, error) {
	return roughStepOf(e, t)
}

func roughStepOf(e *exam, t int) (*fullStep, error) {
	m := e.machine
	b := e.c.Rollout.EngineBatches()[0]
	st, err := e.step(0, b[0], b[1], t)
	if err != nil {
		return nil, err
	}
	s := &fullStep{batchStep: st}
	base := view{e: e, m: m, x: st.X, draws: st.Draws}
	exact := base
	mode := e.o.Mode
	exact.d = &emulate.Device{Mode: mode, WideInput: mode.Precision != fp16.TF32}
	exact.d.State = fp16.Float64
	if err := exact.compute(); err != nil {
		return nil, err
	}
	s.Truth = exact.next.Data
	// storage
	near := base
	input := fp16.Float32
	cfg := e.c.Rollout
	if cfg.Policy == rollout.Autoregressive && t > 1 {
		input = mode.Output()
	}
	near.d = &emulate.Device{Mode: mode}
	if near.d.Store, err = m.Formats(mode, input); err != nil {
		return nil, err
	}
	near.d.State = cfg.StateFormat(mode.Output())
	if err := near.compute(); err != nil {
		return nil, err
	}
	s.Device, s.Emulated = near.d, near.next.Data
	s.S = make([]float64, len(s.Truth))
	const K = 16
	for k := range K {
		p, err := exact.perturbed(&hypothesis{}, everywhere, uint64(100+k))
		if err != nil {
			return nil, err
		}
		for i, v := range p.Data {
			d := v - s.Truth[i]
			s.S[i] += d * d / K
		}
	}
	hw := st.X.H * st.X.W
	for k := 0; k*hw < len(s.S); k++ {
		p := s.S[k*hw : (k+1)*hw]
		q := slices.Clone(p)
		slices.Sort(q)
		floor := 0.01 * q[len(q)/2]
		for i := range p {
			p[i] = math.Sqrt(max(p[i], floor) + math.Pow(near.d.State.Ulp(s.Truth[k*hw+i]), 2)/12)
		}
	}
	for k := range 6 {
		p, err := near.perturbed(&hypothesis{}, everywhere, uint64(200+k))
		if err != nil {
			return nil, err
		}
		r := make([]float64, len(p.Data))
		for i, v := range p.Data {
			r[i] = (v - s.Emulated[i]) / s.S[i]
		}
		s.Limit = max(s.Limit, 2*rootMean(r))
	}
	return s, nil
}

func TestO2Zoo(t *testing.T) {
	if *o2zoo == "" {
		return
	}
	b, err := os.ReadFile(filepath.Join(*o2zoo, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index []struct {
		Case, Expect, Subject, Family, What, Place, Mode string
		Accept                                           []string
		Amplitude                                        float64
		First_step                                       *int
		First_layer                                      string
		Identity                                         *string
	}
	b = []byte(strings.ReplaceAll(string(b), "Infinity", "1e300"))
	if err := json.Unmarshal(b, &index); err != nil {
		t.Fatal(err)
	}
	fam := map[Verdict]string{FailLogic: "logic", FailPrecision: "precision", FailRNG: "rng", FailRollout: "rollout"}
	diagnosed, wrong, faulty, false_ := 0, 0, 0, 0
	var total time.Duration
	for n, c := range index {
		if n%*o2every != *o2off || *o2only != "" && !slices.ContainsFunc(strings.Split(*o2only, ","), func(s string) bool { return strings.Contains(c.Case, s) }) {
			continue
		}
		cs, err := rollout.OpenCase(filepath.Join(*o2zoo, c.Case))
		if err != nil {
			t.Fatal(err)
		}
		op, err := cs.NewOperator()
		if err != nil {
			t.Fatal(err)
		}
		states, err := cs.ReadTrajectory()
		if err != nil {
			t.Fatal(err)
		}
		mode, err := operator.ParseMode(cs.Rollout.Precision, cs.Rollout.Autocast)
		if err != nil {
			t.Fatal(err)
		}
		o := CheckOptions{Mode: mode}
		stream, err := claimedNoise(cs, op, o)
		if err != nil {
			t.Fatal(err)
		}
		e := &exam{c: cs, op: op, o: o, states: states, stream: stream, ctx: t.Context()}
		e.machine = emulate.New(op, cs.Rollout)
		e.r = e.open()
		step := 1
		if c.First_step != nil && *c.First_step > 0 {
			step = *c.First_step
		}
		o2hook = nil
		t0, c0 := time.Now(), cpuTime()
		if err := e.steps(); err != nil {
			t.Error(c.Case, err)
			continue
		}
		took := time.Since(t0)
		took = cpuTime() - c0
		total += took
		gates := ""
		for _, g := range e.r.Findings {
			if g.Gate != "filter" {
				gates += fmt.Sprintf(" %s/%s@%d %.2g", g.Gate, g.Verdict, g.Step, float64(g.Excess))
			}
		}
		e.r.Findings = slices.DeleteFunc(e.r.Findings, func(g Finding) bool { return g.Gate != "filter" })
		verdict := "unknown"
		mark := ""
		if len(e.r.Findings) > 0 {
			g := e.r.Findings[0]
			verdict = fmt.Sprintf("%s: %q at %q", g.Verdict, g.Diagnosis, g.Layer)
			diagnosed++
			if c.Expect == "pass" {
				mark = "FALSE"
				false_++
			} else if fam[g.Verdict] != c.Family && !slices.Contains(c.Accept, fam[g.Verdict]) {
				mark = "WRONG"
				wrong++
			}
		} else if c.Expect == "pass" {
			verdict = "-"
		}
		if c.Expect == "fail" {
			faulty++
		}
		id := ""
		if c.Identity != nil {
			id = "(identity)"
		}
		fmt.Printf("%-5s %-34s a=%g [%s] %s -> %s   [%s] %.0fms %d tried, blind %d\n", mark, c.Case, c.Amplitude, gates, c.What+id, verdict, c.Place, took.Seconds()*1e3, len(e.r.Filters), len(e.r.Blind))
		_ = step
		for i, row := range e.r.Filters {
			if i < *o2rows {
				fmt.Printf("        %v %-50s %-30s c %.4f t %.1f gain %.4f\n", row.Found, row.Name, row.Layer, row.Amplitude, row.T, row.Gain)
			}
		}
	}
	fmt.Printf("faulty %d diagnosed %d wrong %d false %d, %v\n", faulty, diagnosed, wrong, false_, total)
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

var o2hook any
var _ = tensor.New
var _ = math.Pi
