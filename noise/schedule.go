package noise

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/exact"
)

// Schedule says how the noise scale of a block changes over a rollout.
type Schedule uint8

// The schedules, after the noise_schedule of Spinlock's StochasticBlock.
const (
	Constant  Schedule = iota // f = 1
	Annealing                 // f = 1 - min(step/max, 1)
	Periodic                  // f = 1 + sin(2 pi step/period)/2
)

var scheduleNames = []string{"constant", "annealing", "periodic"}

// String returns the name used in configurations.
func (s Schedule) String() string { return nameOf(scheduleNames, int(s), "Schedule") }

// ParseSchedule returns the schedule of that name: constant, annealing or
// periodic. Any other name is an error that lists them.
func ParseSchedule(name string) (Schedule, error) {
	i, err := parseName(scheduleNames, "noise schedule", name)
	return Schedule(i), err
}

// Time is the place of an application in a rollout. A nil field is not known
// (Spinlock's None): a schedule that needs it stays constant. The zero value
// knows neither.
type Time struct {
	Step *int // index of the step, 0 or more
	Max  *int // number of steps over which Annealing falls to 0, 1 or more
}

// Scale returns the scheduled noise scale s0*f, where s0 is rounded to float32
// first (noise_scale is a float32 number) and f is the factor of the schedule:
// 1 for Constant, for Annealing without step or max and for Periodic without
// step.
//
// For every format but Float64 the result is rn32(s0*f) with f = rn32 of the
// exact factor. For Float64 it is the float64 product of s0 and f, where f is
// the factor rounded to float64: to nearest for Annealing, and within 1 ulp
// for Periodic.
//
// A negative step, and a max or period below 1 where it is needed, is an
// error.
func (s Schedule) Scale(s0 float64, at Time, period int, f fp16.Format) (float64, error) {
	s0 = fp16.Float32.Round(s0)
	if s == Constant || at.Step == nil || s == Annealing && at.Max == nil {
		return s0, nil
	}
	if f != fp16.Float64 {
		f = fp16.Float32
	}
	step := *at.Step
	if step < 0 {
		return 0, fmt.Errorf("step: %d: want 0 or more", step)
	}
	var factor float64
	switch s {
	case Annealing:
		last := *at.Max
		if last < 1 {
			return 0, fmt.Errorf("max_steps: %d: want 1 or more", last)
		}
		factor = quotient(last-min(step, last), last, f)
	case Periodic:
		if period < 1 {
			return 0, fmt.Errorf("schedule_period: %d: want 1 or more", period)
		}
		factor = wave(step%period, period, f)
	default:
		return 0, fmt.Errorf("noise schedule: %v: want one of %s", s, strings.Join(scheduleNames, ", "))
	}
	return f.Round(float64(s0 * factor)), nil
}

// quotient returns a/b rounded once to Float64 or Float32.
func quotient(a, b int, f fp16.Format) float64 {
	q := big.NewRat(int64(a), int64(b))
	if f == fp16.Float64 {
		v, _ := q.Float64()
		return v
	}
	v, _ := q.Float32()
	return float64(v)
}

// wave returns 1 + sin(2 pi k/n)/2: rounded to nearest for Float32, within an
// ulp for Float64.
//
// Let s be the sine and o the sine rounded to odd. The numbers at which the
// rounding of 1+s/2 to float32 can change are grid points and midpoints of
// [1/2, 3/2], all multiples of 2^-25; so s matters only by its order relative
// to multiples t of 2^-24 in [-1, 1]. Such a t has at most 25 significant
// bits, hence an even last bit as a float64, whereas o is either s itself or a
// float64 with an odd last bit with no other float64 between it and s. So s
// and o lie on the same side of every t, and 1+o/2 rounds as 1+s/2 does. That
// sum does not fit a float64; it is formed exactly and rounded to odd again,
// which Float32.Round may follow.
//
// For Float64 it is the float64 1+o/2, which rounds by half an ulp; o/2 is off
// by less than 2^-54, at most another half ulp of 1+s/2 >= 1/2.
func wave(k, n int, f fp16.Format) float64 {
	o := exact.Sin2Pi(int64(k), int64(n))
	if f == fp16.Float64 {
		return 1 + float64(o/2)
	}
	var sum exact.Sum
	sum.Add(1)
	sum.Add(o / 2)
	return f.Round(sum.Odd())
}
