package diff

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestFields: the figures are those of their formulas, written out, realization by realization.
func TestFields(t *testing.T) {
	const m, steps, channels, size = 3, 2, 2, 35
	r := rand.New(rand.NewPCG(7, 8))
	got, want := make([]float64, m*steps*channels*size), make([]float64, m*steps*channels*size)
	for i := range want {
		want[i] = 5 + r.NormFloat64()
		got[i] = want[i] + .01*r.NormFloat64()
	}
	f := NewFields(steps, channels)
	for i := range m * steps {
		lo := i * channels * size
		one := NewFields(1, channels)
		one.AddState(0, got[lo:lo+channels*size], want[lo:lo+channels*size])
		f.Join(i%steps, one)
	}
	for i, is := range f.All() {
		step, channel := i/channels, i%channels
		var most, abs, rel, vrmse float64
		for k := range m {
			lo := ((k*steps+step)*channels + channel) * size
			var sum, squares, of, deviations float64
			for j := lo; j < lo+size; j++ {
				d := got[j] - want[j]
				most, abs, sum = max(most, math.Abs(d)), abs+math.Abs(d)/(m*size), sum+want[j]/size
				squares, of = squares+d*d, of+want[j]*want[j]
			}
			for _, w := range want[lo : lo+size] {
				deviations += (w - sum) * (w - sum)
			}
			rel, vrmse = rel+math.Sqrt(squares/of)/m, vrmse+math.Sqrt(squares/deviations)/m
		}
		near := func(name string, got Number, want float64) {
			if !(math.Abs(float64(got)-want) <= 1e-12*want) {
				t.Errorf("step %d, channel %d: %s %v, want %v", step, channel, name, got, want)
			}
		}
		if is.Step != step || is.Channel != channel {
			t.Errorf("step %d, channel %d at %d", is.Step, is.Channel, i)
		}
		near("largest", is.MaxAbs, most)
		near("mean", is.MeanAbs, abs)
		near("relative L2", is.RelL2, rel)
		near("VRMSE", is.VRMSE, vrmse)
	}
}

// TestFieldSpecials: NaN, infinity, constant and zero planes, and planes that are missing.
func TestFieldSpecials(t *testing.T) {
	x := Number(inf)
	for _, c := range []struct {
		name      string
		got, want []float64
		is        Field
	}{
		{"equal", []float64{1, 2}, []float64{1, 2}, Field{}},
		{"a NaN of the device", []float64{nan, 2}, []float64{1, 2}, Field{MaxAbs: x, MeanAbs: x, RelL2: x, VRMSE: x}},
		{"an infinity of the reference", []float64{1, 2}, []float64{1, inf},
			Field{MaxAbs: x, MeanAbs: x, RelL2: x, VRMSE: x}},
		{"NaNs of both", []float64{nan, 1, 3}, []float64{nan, 2, 2}, Field{MaxAbs: 1, MeanAbs: 1, RelL2: .5, VRMSE: x}},
		{"nothing but NaNs of both", []float64{nan}, []float64{nan}, Field{}},
		{"a constant", []float64{3, 1}, []float64{2, 2}, Field{MaxAbs: 1, MeanAbs: 1, RelL2: .5, VRMSE: x}},
		{"the same constant", []float64{2, 2}, []float64{2, 2}, Field{}},
		{"zeros", []float64{1, 1}, []float64{0, 0}, Field{MaxAbs: 1, MeanAbs: 1, RelL2: x, VRMSE: x}},
		{"beyond float64's squares", []float64{0x1p800, -0x1p801}, []float64{0x1p801, -0x1p801},
			Field{MaxAbs: 0x1p800, MeanAbs: 0x1p799, RelL2: Number(math.Sqrt(.125)), VRMSE: Number(math.Sqrt(.125))}},
	} {
		f := NewFields(1, 1)
		f.Add(0, 0, c.got, c.want)
		is := f.All()[0]
		for i, v := range []Number{is.MaxAbs, is.MeanAbs, is.RelL2, is.VRMSE} {
			w := []Number{c.is.MaxAbs, c.is.MeanAbs, c.is.RelL2, c.is.VRMSE}[i]
			if v != w && !(math.Abs(float64(v-w)) <= 1e-15*float64(w)) {
				t.Errorf("%s: %+v, want %+v", c.name, is, c.is)
			}
		}
	}
	f := NewFields(1, 2)
	f.Add(0, 1, []float64{1}, []float64{1})
	if is := f.All()[0]; is.MaxAbs == is.MaxAbs || is.MeanAbs == is.MeanAbs || is.RelL2 == is.RelL2 ||
		is.VRMSE == is.VRMSE {
		t.Errorf("a channel without planes: %+v, want NaN", is)
	}
}

// TestCompareFields: figures of what is read block by block are those of planes in memory, to
// the bit, and what fits a block is read once.
func TestCompareFields(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range [][5]int{
		{1, 1, 1, 1, 1}, {2, 3, 2, 5, 7}, {2, 1, 1, 2, block}, {1, 2, 2, 3, 30011}, {3, 2, 1, 1, block},
	} {
		n, size := s[0]*s[1]*s[2]*s[3]*s[4], s[3]*s[4]
		got, want := make([]float64, n), make([]float64, n)
		f := NewFields(s[1], s[2])
		for i := range want {
			want[i] = math.Ldexp(r.NormFloat64(), r.IntN(40)-20) + 1e3
			got[i] = want[i] + math.Ldexp(r.NormFloat64(), -r.IntN(60))
		}
		for i := range n / size {
			f.Add(i/s[2]%s[1], i%s[2], got[i*size:(i+1)*size], want[i*size:(i+1)*size])
		}
		g, w := &stored{v: got, end: n}, &stored{v: want, end: n}
		fields, err := CompareFields(g, w, n, s)
		if err != nil || !reflect.DeepEqual(fields, f.All()) {
			t.Errorf("%v: %+v, %v, want %+v", s, fields, err, f.All())
		}
		if size <= block && (g.read != n || w.read != n) {
			t.Errorf("%v: %d and %d elements read, want %d each", s, g.read, w.read, n)
		}
		for _, side := range []*stored{g, w} {
			side.end--
			if _, err := CompareFields(g, w, n, s); err != errStored {
				t.Errorf("%v: error %v, want that of reading", s, err)
			}
			side.end++
		}
	}
}

func TestWriteCSV(t *testing.T) {
	var b strings.Builder
	if err := WriteCSV(&b, []Field{{0, 1, .5, .25, 1e-9, Number(inf)}, {3, 0, Number(nan), 0, Number(-inf), 2}}); err !=
		nil {
		t.Fatal(err)
	}
	if want := "step,channel,max_abs,mean_abs,rel_l2,vrmse\n0,1,0.5,0.25,1e-09,inf\n3,0,nan,0,-inf,2\n"; b.String() !=
		want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
