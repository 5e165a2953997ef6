package pointwise

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// Func is a function of one number with its parameters. Parse makes one; the zero
// value is none.
type Func struct {
	fn           *function
	given, float args // the parameters, and rounded to float32
}

// args are the values of a function's parameters, in the order of its table.
type args [3]float64

// param is a parameter: its name, what it is if not given, and what it may be.
type param struct {
	name  string
	value float64
	may   domain
}

// domain is a set of numbers and what the error message calls it.
type domain struct {
	has  func(v float64) bool
	name string
}

var (
	number   = domain{func(v float64) bool { return v-v == 0 }, "a number within float32's range"}
	extent   = domain{func(v float64) bool { return v >= 0 && v-v == 0 }, "0 or a positive number within float32's range"}
	positive = domain{func(v float64) bool { return v > 0 && v-v == 0 }, "a positive number within float32's range"}
	extended = domain{func(v float64) bool { return v == v }, "a number or an infinity"}
)

// in returns the parameters for results of a format.
func (f *Func) in(format fp16.Format) *args {
	if format == fp16.Float64 {
		return &f.given
	}
	return &f.float
}

// Parse returns the function of that name, one of Names, with these parameters; those
// that are not given have the values that the package's doc lists. Any other name,
// parameter or value is an error.
func Parse(name string, params map[string]float64) (Func, error) {
	if fn := functions[name]; fn != nil {
		return fn.with(params)
	}
	return Func{}, fmt.Errorf("unknown function %.60q: want one of %s", name, strings.Join(Names(), ", "))
}

func (fn *function) with(params map[string]float64) (Func, error) {
	f, used := Func{fn: fn}, 0
	var names []string
	for i, p := range fn.params {
		v, ok := params[p.name]
		if ok {
			used++
		} else {
			v = p.value
		}
		single := float64(float32(v))
		if !p.may.has(v) || !p.may.has(single) {
			return Func{}, fmt.Errorf("%s: %s: %v: want %s", fn.name, p.name, v, p.may.name)
		}
		f.given[i], f.float[i] = v, single
		names = append(names, p.name)
	}
	if used == len(params) {
		return f, nil
	}
	want := "none"
	if names != nil {
		want = strings.Join(names, ", ")
	}
	first := ""
	for name := range params {
		if (first == "" || name < first) && !strings.Contains(","+strings.Join(names, ",")+",", ","+name+",") {
			first = name
		}
	}
	return Func{}, fmt.Errorf("%s: unknown parameter %.60q: want %s", fn.name, first, want)
}

// Names returns the names of all functions, sorted.
func Names() []string { return slices.Sorted(maps.Keys(functions)) }

// Name returns the name that Parse reads.
func (f Func) Name() string {
	if f.fn == nil {
		return "none"
	}
	return f.fn.name
}

// Params returns the values of all parameters by name, those that were not given too.
func (f Func) Params() map[string]float64 {
	of := map[string]float64{}
	if f.fn != nil {
		for i, p := range f.fn.params {
			of[p.name] = f.given[i]
		}
	}
	return of
}

// String returns the name and all parameters, such as "elu(alpha=1, scale=1)".
func (f Func) String() string {
	if f.fn == nil {
		return "none"
	}
	if len(f.fn.params) == 0 {
		return f.fn.name
	}
	var list []string
	for i, p := range f.fn.params {
		list = append(list, p.name+"="+strconv.FormatFloat(f.given[i], 'g', -1, 64))
	}
	return f.fn.name + "(" + strings.Join(list, ", ") + ")"
}

var (
	inf     = math.Inf(1)
	negZero = math.Copysign(0, -1)
	nan     = fp16.NaN
)
