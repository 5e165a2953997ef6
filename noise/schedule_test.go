package noise

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/judges/bigref"
)

func at(step, last int) Time { return Time{Step: &step, Max: &last} }

func mustScale(t *testing.T, s Schedule, s0 float64, when Time, period int, f fp16.Format) float64 {
	t.Helper()
	v, err := s.Scale(s0, when, period, f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// scaled is the contract: rn(s0*rn(f)), in float32 but for Float64.
func scaled(s0 float64, factor *big.Rat, f fp16.Format) float64 {
	if f != fp16.Float64 {
		f = fp16.Float32
	}
	product := new(big.Rat).Mul(bigref.Rat(s0), bigref.Rat(bigref.Round(factor, f)))
	return bigref.Round(product, f)
}

func TestAnnealingScale(t *testing.T) {
	s0 := float64(float32(0.1))
	for last := 1; last <= 60; last++ {
		for step := 0; step <= last+1; step++ {
			factor := big.NewRat(int64(max(last-step, 0)), int64(last))
			for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.TF32, fp16.Float16, fp16.BFloat16} {
				got := mustScale(t, Annealing, s0, at(step, last), 0, f)
				if want := scaled(s0, factor, f); got != want {
					t.Fatalf("%v, step %d of %d: %x, want %x", f, step, last, got, want)
				}
			}
		}
	}
}

// sineRat returns 1 + sin(2 pi k/n)/2 to 120 bits and more.
func sineRat(k, n int) *big.Rat {
	s, _ := wideRoot(k%n, n, 1).im.Rat(nil)
	return s.Mul(s, big.NewRat(1, 2)).Add(s, big.NewRat(1, 1))
}

func TestPeriodicScale(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	check := func(step, period int) {
		s0 := float64(float32(0.05 + 0.1*rng.Float64()))
		factor := sineRat(step, period)
		got := mustScale(t, Periodic, s0, Time{Step: &step}, period, fp16.Float32)
		if want := scaled(s0, factor, fp16.Float32); got != want {
			t.Fatalf("step %d, period %d: %x, want %x", step, period, got, want)
		}
		exact, _ := factor.Float64()
		if got := wave(step%period, period, fp16.Float64); math.Abs(got-exact) > fp16.Float64.Ulp(exact) {
			t.Fatalf("float64 factor at step %d, period %d: %x, want %x within an ulp", step, period, got, exact)
		}
		if got, want := mustScale(t, Periodic, s0, Time{Step: &step}, period, fp16.Float64),
			s0*wave(step%period, period, fp16.Float64); got != want {
			t.Fatalf("float64, step %d, period %d: %x, want %x", step, period, got, want)
		}
	}
	for period := 1; period <= 40; period++ {
		for step := range period {
			check(step, period)
		}
		check(3*period+1, period)
	}
	for range 200 {
		check(rng.IntN(1<<20), 1+rng.IntN(1<<20))
	}
}

func TestScaleWithoutTime(t *testing.T) {
	step, last := 3, 10
	for _, c := range []struct {
		s  Schedule
		at Time
	}{
		{Constant, Time{&step, &last}}, {Annealing, Time{}}, {Annealing, Time{Step: &step}}, {Annealing, Time{Max: &last}},
		{Periodic, Time{}}, {Periodic, Time{Max: &last}},
	} {
		for _, f := range []fp16.Format{fp16.Float64, fp16.Float32, fp16.BFloat16} {
			// 0.1 is no float32 number: noise_scale is rounded to one.
			if got := mustScale(t, c.s, 0.1, c.at, 0, f); got != float64(float32(0.1)) {
				t.Errorf("%v in %v: %x, want the constant scale", c.s, f, got)
			}
		}
	}
}

func TestScheduleErrors(t *testing.T) {
	for _, c := range []struct {
		s      Schedule
		at     Time
		period int
		want   string
	}{
		{Annealing, at(3, 0), 1, "max_steps: 0: want 1 or more"},
		{Annealing, at(-1, 5), 1, "step: -1: want 0 or more"},
		{Periodic, at(3, 5), 0, "schedule_period: 0: want 1 or more"},
		{Schedule(9), at(3, 5), 1, "Schedule(9): want one of constant, annealing, periodic"},
	} {
		if _, err := c.s.Scale(1, c.at, c.period, fp16.Float32); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.s, err, c.want)
		}
	}
	if _, err := ParseSchedule("linear"); err == nil ||
		!strings.Contains(err.Error(), `"linear": want one of constant, annealing, periodic`) {
		t.Errorf("ParseSchedule: error %v", err)
	}
	for _, s := range []Schedule{Constant, Annealing, Periodic} {
		if got, err := ParseSchedule(s.String()); got != s || err != nil {
			t.Errorf("ParseSchedule(%q) = %v, %v", s.String(), got, err)
		}
	}
}
