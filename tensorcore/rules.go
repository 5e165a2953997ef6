package tensorcore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/fp16"
)

// Input is the format of a unit's operands.
type Input uint8

// The formats. E4M3 and E5M2 are FP8 of so many bits of exponent and fraction; E4M3 has no
// infinity (Micikevicius and others, arXiv 2209.05433).
const (
	FP16 Input = iota
	BF16
	TF32
	E4M3
	E5M2
	inputs
)

var inputNames = [inputs]string{"fp16", "bf16", "tf32", "E4M3", "E5M2"}

// String returns the name that ParseInput reads.
func (in Input) String() string { return inputNames[in] }

// ParseInput returns the format of that name: fp16 or float16, bf16 or bfloat16, tf32, E4M3,
// E5M2. Any other name is an error that lists them.
func ParseInput(name string) (Input, error) {
	switch name {
	case "float16":
		return FP16, nil
	case "bfloat16":
		return BF16, nil
	}
	if i := slices.Index(inputNames[:], name); i >= 0 {
		return Input(i), nil
	}
	return 0, fmt.Errorf("operands %.40q: want one of %s", name, strings.Join(inputNames[:], ", "))
}

// Has reports whether a number is one of the format, or NaN; of TF32 every float32 number is,
// as units cut it. An infinity is none of E4M3.
func (in Input) Has(v float64) bool {
	switch {
	case v != v:
		return true
	case in == FP16:
		return fp16.Float16.Round(v) == v
	case in == BF16:
		return fp16.BFloat16.Round(v) == v
	case in == TF32:
		return fp16.Float32.Round(v) == v
	}
	return narrow[in].Holds(v)
}

// narrow are the formats of 8 bits.
var narrow = map[Input]fp16.Narrow{E4M3: fp16.E4M3, E5M2: fp16.E5M2}

// lowest returns the exponent of the smallest normal number.
func (in Input) lowest() int { return [inputs]int{-14, -126, -126, -6, -14}[in] }

// Source says how a rule is known.
type Source uint8

// The sources, the surest first.
const (
	Recorded Source = iota // equals what such a device returned, in every bit recorded
	Related                // is said to be that of a device of the same kind, which was recorded
	Reported               // is another emulator's, that was held to the device by its authors
	Open                   // sources disagree
)

// String returns the source in a word.
func (s Source) String() string { return [...]string{"recorded", "related", "reported", "open"}[s] }

// Rule is how a unit adds a block.
type Rule struct {
	Kind     Kind
	Terms    int    // N, products of a block
	Fraction int    // F, bits of a term below the greatest one's first
	Keep     int    // bits of the fraction of each float32 result, 0 for all 23
	Lowest   [2]int // the least E, for float32 and for float16 results
	Half     bool   // there are float16 results too
}

// gives reports whether there are results of a format, Float32 or Float16, by the rule.
func (r Rule) gives(out fp16.Format) bool {
	return out == fp16.Float32 || out == fp16.Float16 && r.Half
}

// Kind is the family of a rule.
type Kind uint8

// The families.
const (
	NVIDIA    Kind = iota // one truncated sum
	Exact                 // one exact sum with the accumulator, rounded to nearest even
	Pairs                 // MI200: (p0+p1) + (p2+p3), then the accumulator, in float32, without subnormals
	Floor                 // MI300: products truncated, sum and accumulator floored
	Converted             // FP8 in two blocks of float16's units, the accumulator added after
)

// row is a rule of a device.
type row struct {
	in Input
	Rule
	source Source
}

// device is a device with its rules.
type device struct {
	name, title string
	rows        []row
}

var (
	volta  = Rule{Kind: NVIDIA, Terms: 4, Fraction: 23, Lowest: [2]int{-131, -19}, Half: true}
	ampere = Rule{Kind: NVIDIA, Terms: 8, Fraction: 24, Lowest: [2]int{-132, -20}, Half: true}
	hopper = Rule{Kind: NVIDIA, Terms: 16, Fraction: 25, Lowest: [2]int{-133, -21}, Half: true}

	converted = Rule{Kind: Converted, Terms: 32, Fraction: hopper.Fraction, Lowest: hopper.Lowest, Half: true}
)

// with returns a rule of another number of terms, without float16 results.
func (r Rule) with(terms int) Rule {
	r.Terms, r.Half = terms, false
	return r
}

// eight returns the rule of FP8 of Ada and of wgmma: so many terms, and 13 bits are kept.
func (r Rule) eight(terms int) Rule {
	r = r.with(terms)
	r.Fraction, r.Keep = 13, 13
	return r
}

// devices is all that is known. BF16 and TF32 have float32 results only. FP8 of Hopper differs by the instruction,
// of which wgmma's are those without a name, as libraries use them.
var devices = []device{
	{"v100", "NVIDIA V100", []row{{FP16, volta, Recorded}}},
	{"t4", "NVIDIA T4", []row{{FP16, ampere, Reported}}},
	{"a100", "NVIDIA A100", amperes(Recorded)},
	{"a2", "NVIDIA A2", amperes(Recorded)},
	{"ada", "NVIDIA RTX 1000 Ada", append(amperes(Recorded), eights(halved(ampere.eight(16)), Recorded)...)},
	{"l40s", "NVIDIA L40S", append(amperes(Recorded), eights(halved(ampere.eight(16)), Recorded)...)},
	{"h100", "NVIDIA H100",
		slices.Concat(hoppers(Recorded), eights(hopper.eight(32), Recorded), eights(halved(hopper.eight(32)), Related))},
	{"h100-mma", "NVIDIA H100, mma", append(hoppers(Recorded), eights(converted, Related)...)},
	{"h200", "NVIDIA H200", append(hoppers(Recorded), eights(halved(hopper.eight(32)), Recorded)...)},
	{"h200-mma", "NVIDIA H200, mma", append(hoppers(Recorded), eights(converted, Recorded)...)},
	{"b200", "NVIDIA B200, mma", append(hoppers(Recorded), eights(converted, Recorded)...)},
	{"b200-tcgen05", "NVIDIA B200, tcgen05", append(hoppers(Related), eights(hopper.with(32), Reported)...)},
	{"mi100", "AMD MI100", []row{
		{FP16, Rule{Kind: Exact, Terms: 4}, Open},
		{BF16, Rule{Kind: Exact, Terms: 2}, Open},
	}},
	{"mi200", "AMD MI200", []row{
		{FP16, Rule{Kind: Pairs, Terms: 4}, Reported},
		{BF16, Rule{Kind: Pairs, Terms: 4}, Reported},
	}},
	{"mi300", "AMD MI300", []row{
		{FP16, Rule{Kind: Floor, Terms: 8, Fraction: 24}, Reported},
		{BF16, Rule{Kind: Floor, Terms: 8, Fraction: 24}, Reported},
		{TF32, Rule{Kind: Floor, Terms: 4, Fraction: 24}, Reported},
	}},
}

func amperes(s Source) []row {
	return []row{{FP16, ampere, s}, {BF16, ampere.with(8), s}, {TF32, ampere.with(4), s}}
}

func hoppers(s Source) []row {
	return []row{{FP16, hopper, s}, {BF16, hopper.with(16), s}, {TF32, hopper.with(8), s}}
}

func eights(r Rule, s Source) []row { return []row{{E4M3, r, s}, {E5M2, r, s}} }

func halved(r Rule) Rule {
	r.Half = true
	return r
}

// Model is a device whose units are known.
type Model struct{ *device }

// Names returns the names of all models.
func Names() []string {
	var names []string
	for i := range devices {
		names = append(names, devices[i].name)
	}
	return names
}

// Lookup returns the model of that name, one of Names. Any other name is an error that
// lists them.
func Lookup(name string) (Model, error) {
	for i := range devices {
		if devices[i].name == name {
			return Model{&devices[i]}, nil
		}
	}
	return Model{}, fmt.Errorf("tensor core %.40q: want one of %s", name, strings.Join(Names(), ", "))
}

// Name returns the name that [Lookup] reads.
func (m Model) Name() string { return m.name }

// Title returns what the device is called, such as "NVIDIA V100".
func (m Model) Title() string { return m.title }

// Inputs returns the formats of the model's operands.
func (m Model) Inputs() (all []Input) {
	for _, r := range m.rows {
		if !slices.Contains(all, r.in) {
			all = append(all, r.in)
		}
	}
	return all
}

// Unit returns the unit for operands and results of such formats, results of Float32 or
// Float16. It is an error if the model has none.
func (m Model) Unit(in Input, out fp16.Format) (*Unit, error) {
	var results, names []string
	for _, r := range m.rows {
		if r.in != in {
			continue
		}
		if r.gives(out) {
			return &Unit{Rule: r.Rule, Input: in, Output: out, Source: r.source}, nil
		}
		for _, f := range []fp16.Format{fp16.Float32, fp16.Float16} {
			if r.gives(f) && !slices.Contains(results, f.String()) {
				results = append(results, f.String())
			}
		}
	}
	if results != nil {
		return nil, fmt.Errorf("%s: %v results of %v operands: want %s", m.name, out, in, strings.Join(results, " or "))
	}
	for _, of := range m.Inputs() {
		names = append(names, of.String())
	}
	return nil, fmt.Errorf("%s: operands %v: want %s", m.name, in, strings.Join(names, ", "))
}
