package judge

import (
	"reflect"
	"testing"
)

// TestTally: what is counted of two pieces is added up, field by field, the simulated kernels one by one; the worst
// element is that of the piece that has it, and the first piece is taken as it is.
func TestTally(t *testing.T) {
	one := tally{elements: 10, violations: 1, unknown: 2, flips: 3, close: 4, all: 5, expected: 6, variance: 7, flipped: 8,
		right: []counts{{1, 10}, {2, 20}, {3, 30}}, wrong: []int{4}, worst: &Worst{}, score: 9, constant: true, reach: 0.5,
		bias: 1, biased: 2, value: 3, units: [2]flushes{{gone: 1, kept: 2}, {gone: 3, kept: 4}}}
	other := tally{elements: 20, violations: 10, unknown: 20, flips: 30, close: 40, all: 50, expected: 60, variance: 70,
		flipped: 80, right: []counts{{100, 1000}, {200, 2000}}, wrong: []int{7, 8}, worst: &Worst{Got: "1"}, score: 8,
		constant: true, finite: true, reach: 0.75, bias: 10, biased: 20, value: 4,
		units: [2]flushes{{gone: 10, kept: 20}, {gone: 30, kept: 40}}}
	var got tally
	got.add(&one)
	if !reflect.DeepEqual(got, one) {
		t.Errorf("the first piece: %+v, want %+v", got, one)
	}
	want := tally{elements: 30, violations: 11, unknown: 22, flips: 33, close: 44, all: 55, expected: 66, variance: 77,
		flipped: 88, right: []counts{{101, 1010}, {202, 2020}}, wrong: []int{4, 7, 8}, worst: one.worst, score: 9,
		finite: true, reach: 0.75, bias: 11, biased: 22, value: 3,
		units: [2]flushes{{gone: 11, kept: 22}, {gone: 33, kept: 44}}}
	got.right, got.wrong = append([]counts(nil), one.right...), append([]int(nil), one.wrong...)
	if got.add(&other); !reflect.DeepEqual(got, want) || got.worst != one.worst {
		t.Errorf("two pieces: %+v, want %+v", got, want)
	}
	other.score = 10
	if got.add(&other); got.worst != other.worst || got.score != 10 {
		t.Errorf("the worst element: %+v, %v, want that of the piece with the higher score", got.worst, got.score)
	}
}
