package noise

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/safetensors"
)

// Tape is a recording of the draws of a rollout, made by any framework, that
// can be replayed.
//
// It holds the primitive draws of every engine batch K = 0, 1, ... before
// scaling, for steps 1 to T-1 and B realizations, as arrays named
//
//	batchK              if the operator makes one draw per application
//	batchK.drawI.KIND   in general: draw I = 0, 1, ... of each application
//
// with shapes by kind (see [Kind.String])
//
//	normal, exponential   [T-1,B,C,H,W]
//	bernoulli             [T-1,B,C,1,1] or [T-1,B,C], of zeros and ones
//	normal_complex        [T-1,B,C,H,W,2]
//
// The short name fits every kind but exponential, which never comes alone. T
// is the same for all arrays, B for those of a batch. Elements are F32, F16,
// BF16 or F64, finite; F64 elements are rounded to float32 when replayed,
// since draws are float32 numbers in every mode.
//
// Arrays named integrity.* are hashes of the others, and no draws.
//
// What [OpenTape] has read of a tape is what it replays: of the elements of each step of
// an array a hash is kept, and a step that is another one when it is replayed is an
// error.
//
// A Tape may be used by several goroutines.
type Tape struct {
	path    string
	steps   int // T-1
	batches map[int][]recording
	whole   [sha256.Size]byte // of all arrays
}

// recording is one array of a tape.
type recording struct {
	*safetensors.Tensor
	named bool // the name says the kind
	kind  Kind
	steps [][sha256.Size]byte // hashes of the elements of each step
}

// integrity begins the names of what a tape says of its own bytes.
const integrity = "integrity."

// OpenTape checks the arrays of a file and returns them as a tape, which
// shares them. The error names the file, the array and what is wrong with it:
// its name, type, shape or a value.
func OpenTape(f *safetensors.File) (*Tape, error) {
	t := &Tape{path: f.Path, batches: map[int][]recording{}}
	names := slices.DeleteFunc(f.Names(), func(name string) bool { return strings.HasPrefix(name, integrity) })
	if len(names) == 0 {
		return nil, t.wrong("file", "no arrays", "batch0 or batch0.draw0.KIND")
	}
	slices.Sort(names) // so that the error does not depend on their order
	for _, name := range names {
		array, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		r := recording{Tensor: array}
		batch, draw, ok := r.parseName()
		if !ok {
			return nil, t.wrong(strconv.Quote(name), "unknown array",
				"batchK or batchK.drawI.KIND, KIND one of "+strings.Join(kindNames[:], ", "))
		}
		if err := t.check(&r); err != nil {
			return nil, err
		}
		if draw >= len(names) { // do not let a name ask for memory
			return nil, t.wrong(name, fmt.Sprintf("%d arrays in all", len(names)), "draws numbered from 0 without a gap")
		}
		list := t.batches[batch]
		for len(list) <= draw {
			list = append(list, recording{})
		}
		if list[draw].Tensor != nil {
			return nil, t.wrong(name, "second array of the draw", "one, as is "+list[draw].Name)
		}
		list[draw] = r
		t.batches[batch] = list
	}
	for _, batch := range slices.Sorted(maps.Keys(t.batches)) {
		list := t.batches[batch]
		for draw, r := range list {
			switch {
			case r.Tensor == nil:
				return nil, t.wrong(fmt.Sprintf("batch%d.draw%d", batch, draw), "missing", "draws numbered from 0 without a gap")
			case r.Shape[1] != list[0].Shape[1]:
				return nil, t.wrong(r.Name, "shape "+dims(r.Shape),
					fmt.Sprintf("%d realizations, as in %s", list[0].Shape[1], list[0].Name))
			}
		}
	}
	all := sha256.New()
	for _, batch := range slices.Sorted(maps.Keys(t.batches)) {
		for draw, r := range t.batches[batch] {
			fmt.Fprintf(all, "%d %d %s %s\n", batch, draw, r.Name, dims(r.Shape))
			for _, h := range r.steps {
				all.Write(h[:])
			}
		}
	}
	all.Sum(t.whole[:0])
	return t, nil
}

// Hash returns the SHA-256 of all draws: of the place, the name, the shape and the
// hashes of the steps of every array.
func (t *Tape) Hash() string { return hex.EncodeToString(t.whole[:]) }

func (t *Tape) wrong(field, value, want string) error {
	return fmt.Errorf("%s: %s: %s: want %s", t.path, field, value, want)
}

// parseName sets the kind and returns the numbers of batch and draw. Numbers
// are written without sign and leading zeros.
func (r *recording) parseName() (batch, draw int, ok bool) {
	parts := strings.Split(r.Name, ".")
	number := func(i int, prefix string) int {
		digits, found := strings.CutPrefix(parts[i], prefix)
		n, err := strconv.Atoi(digits)
		ok = ok && found && err == nil && n >= 0 && strconv.Itoa(n) == digits
		return n
	}
	ok = len(parts) == 1 || len(parts) == 3
	batch = number(0, "batch")
	if ok && len(parts) == 3 {
		draw = number(1, "draw")
		k := slices.Index(kindNames[:], parts[2])
		r.named, r.kind = true, Kind(k)
		ok = ok && k >= 0
	}
	return batch, draw, ok
}

// check looks at the type, shape and values of one array. The first sets T.
func (t *Tape) check(r *recording) error {
	if _, ok := r.DType.Format(); !ok {
		return t.wrong(r.Name, "dtype "+string(r.DType), "F32, F16, BF16 or F64")
	}
	s := r.Shape
	plain := len(s) == 5
	mask := len(s) == 3 || plain && s[3] == 1 && s[4] == 1
	pairs := len(s) == 6 && s[5] == 2
	ok, want := plain || mask || pairs, "[T-1,B,C,H,W], [T-1,B,C] for a mask or [T-1,B,C,H,W,2] for complex numbers"
	if r.named {
		switch r.kind {
		case Bernoulli:
			ok, want = mask, "[T-1,B,C,1,1] or [T-1,B,C]"
		case ComplexNormal:
			ok, want = pairs, "[T-1,B,C,H,W,2]"
		default:
			ok, want = plain, "[T-1,B,C,H,W]"
		}
	}
	if !ok || slices.Min(s) < 1 {
		return t.wrong(r.Name, "shape "+dims(s), want+", all of 1 or more")
	}
	if t.steps == 0 {
		t.steps = s[0]
	}
	if s[0] != t.steps {
		return t.wrong(r.Name, "shape "+dims(s), fmt.Sprintf("%d steps, as in the file's other arrays", t.steps))
	}
	for step := range t.steps {
		h, err := r.hash(step, t.steps, func(at int, part []float64) error {
			for i, v := range part {
				if v-v != 0 {
					return t.wrong(r.Name, fmt.Sprintf("value %d is %v", at+i, v), "finite float32 numbers")
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		r.steps = append(r.steps, h)
	}
	return nil
}

// hash returns the SHA-256 of the elements of a step, as float32 numbers, and calls use
// with them, from which index on.
func (r *recording) hash(step, steps int, use func(at int, part []float64) error) (sum [sha256.Size]byte, err error) {
	var buffer [4096]float64
	var raw []byte
	h := sha256.New()
	one := r.Len() / steps
	for at, end := step*one, (step+1)*one; at < end; at += len(buffer) {
		part := buffer[:min(len(buffer), end-at)]
		if err := r.read(at, part); err != nil {
			return sum, err
		}
		raw = fp16.Float32.Append(raw[:0], part)
		h.Write(raw)
		if err := use(at, part); err != nil {
			return sum, err
		}
	}
	h.Sum(sum[:0])
	return sum, nil
}

// read converts the elements from index at on, as float32 numbers.
func (r recording) read(at int, dst []float64) error {
	if err := r.Read(at, dst); err != nil {
		return err
	}
	fp16.Float32.RoundSlice(dst, dst)
	return nil
}

// Steps returns T-1, the number of recorded applications.
func (t *Tape) Steps() int { return t.steps }

// Draws returns the draws of one application: step 1 to T-1 of an engine
// batch, for its realizations lo to hi-1. They come in recorded order and can
// be taken once; ask for a kind or a shape that was not recorded, or for more
// draws than there are, and Draw returns an error that names the file, the
// array and what was expected.
//
// A batch that is not on the tape, a step beyond its end and more realizations
// than it has are errors. It panics unless 0 <= lo <= hi.
func (t *Tape) Draws(batch, step, lo, hi int) (Draws, error) {
	if lo < 0 || hi < lo {
		panic("noise: realizations out of order")
	}
	name := fmt.Sprintf("batch%d", batch)
	list := t.batches[batch]
	switch {
	case list == nil:
		return nil, t.wrong(name, "missing", fmt.Sprintf("one of the %d batches of the tape", len(t.batches)))
	case step < 1 || step > t.steps:
		return nil, t.wrong(name, fmt.Sprintf("step %d", step), fmt.Sprintf("a step from 1 to %d", t.steps))
	case hi > list[0].Shape[1]:
		return nil, t.wrong(list[0].Name, "shape "+dims(list[0].Shape), fmt.Sprintf("at least %d realizations", hi))
	}
	return &replay{tape: t, name: name, list: list, step: step, lo: lo, hi: hi}, nil
}

// replay hands out the draws of one application.
type replay struct {
	tape         *Tape
	name         string
	list         []recording
	step, lo, hi int
	next         int
}

// Draw implements [Draws].
func (r *replay) Draw(kind Kind, _ float64, shape []int, dst []float64) error {
	if r.next == len(r.list) {
		return r.tape.wrong(r.name, fmt.Sprintf("%d draws recorded", r.next),
			fmt.Sprintf("%s.draw%d.%v", r.name, r.next, kind))
	}
	rec := r.list[r.next]
	if rec.named && rec.kind != kind || !rec.named && kind == Exponential {
		return r.tape.wrong(rec.Name, "another kind of draw", fmt.Sprintf("%s.draw%d.%v", r.name, r.next, kind))
	}
	want := append([]int{r.tape.steps, rec.Shape[1]}, shape[1:]...)
	if kind == ComplexNormal {
		want = append(want, 2)
	}
	have := rec.Shape
	if kind == Bernoulli && len(have) == 3 {
		have = append(slices.Clone(have), 1, 1)
	}
	if !slices.Equal(have, want) {
		return r.tape.wrong(rec.Name, "shape "+dims(rec.Shape), dims(want))
	}
	if shape[0] != r.hi-r.lo {
		return r.tape.wrong(rec.Name, fmt.Sprintf("%d realizations opened", r.hi-r.lo), strconv.Itoa(shape[0]))
	}
	one := rec.Len() / (rec.Shape[0] * rec.Shape[1]) // elements of a realization
	if len(dst) != shape[0]*one {
		panic("noise: dst does not have the drawn shape")
	}
	at := ((r.step-1)*rec.Shape[1] + r.lo) * one
	h, err := rec.hash(r.step-1, r.tape.steps, func(from int, part []float64) error {
		lo, hi := max(at, from), min(at+len(dst), from+len(part))
		if lo < hi {
			copy(dst[lo-at:], part[lo-from:hi-from])
		}
		return nil
	})
	if err != nil {
		return err
	}
	if h != rec.steps[r.step-1] {
		return r.tape.wrong(rec.Name, fmt.Sprintf("step %d is another one than when it was opened", r.step),
			"a tape that nobody changes while it is replayed")
	}
	if kind == Bernoulli {
		for i, v := range dst {
			if v != 0 && v != 1 {
				return r.tape.wrong(rec.Name, fmt.Sprintf("value %d is %v", at+i, v), "0 or 1")
			}
		}
	}
	r.next++
	return nil
}

// dims writes a shape as in "[11,4,32,32]".
func dims(shape []int) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}

var _ Draws = (*replay)(nil)
