package kernel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/attr"
	"github.com/refrun/refrun/internal/ground/fault"
	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/internal/oracle/quantizer"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// quantizes reports whether an operation is one of those that write or read numbers of 8 bits and fewer.
func quantizes(op string) bool { return op == "quantize" || op == "dequantize" || op == "scaled_mm" }

// quantizerReport is what the --json of a quantizer prints.
type quantizerReport struct {
	*quantizer.Report
	Text string `json:"text"` // what is printed for people
}

// judgeQuantizer reads the tensors of a quantizer, or of its inverse, and judges what it wrote.
func judgeQuantizer(c *cli.Command, path string, a judged) error {
	if a.op == "scaled_mm" {
		return judgeScaled(c, path, a)
	}
	s, err := quantizerOf(a.attributes)
	if err != nil {
		return err
	}
	f, err := openKernel(path)
	if err != nil {
		return err
	}
	q, err := readQuantizer(f, a, s)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r, err := quantizer.Check(*q)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	all := &quantizerReport{r, quantizerText(r)}
	return printJudged(c, all, all.Text, r.Verdict, a.report)
}

// openKernel opens a safetensors file.
func openKernel(path string) (*safetensors.File, error) {
	f, err := safetensors.Open(path)
	if c := fault.Cause(err); err != nil && c != err {
		err = fmt.Errorf("%s: %w: want a safetensors file", path, c)
	}
	return f, err
}

// quantizerOf is the quantizer that attributes name.
func quantizerOf(given cli.List) (quantize.Spec, error) {
	text, err := attributesOf(given)
	if err != nil {
		return quantize.Spec{}, err
	}
	var a struct {
		Format   string          `json:"format"`
		Rule     string          `json:"rule"`
		Axis     *int            `json:"axis"`
		Block    json.RawMessage `json:"block"` // a word, or a number
		Eps      float64         `json:"eps"`
		Order    string          `json:"order"`
		Rounding string          `json:"rounding"`
		Cast     string          `json:"cast"`
	}
	if err := attr.Read(text, &a); err != nil {
		return quantize.Spec{}, fmt.Errorf("--attr: %w", err)
	}
	block := strings.Trim(string(a.Block), `"`)
	return quantize.Parse(a.Format, quantize.Options{
		Rule: a.Rule, Axis: a.Axis, Block: block, Eps: a.Eps, Order: a.Order, Rounding: a.Rounding, Cast: a.Cast,
	})
}

// quantizedDTypes are those in which a format's elements are kept, one or two a byte.
func quantizedDTypes(e quantize.Element) []safetensors.DType {
	switch {
	case e.Whole && e.Bits() == 8 && e.Low < 0:
		return []safetensors.DType{safetensors.I8}
	case e.Whole && e.Bits() == 8:
		return []safetensors.DType{safetensors.U8}
	case e.Whole:
		return []safetensors.DType{safetensors.U8, safetensors.I8}
	}
	if d, ok := safetensors.DTypeOfNarrow(e.Narrow); ok {
		return []safetensors.DType{d, safetensors.U8}
	}
	return []safetensors.DType{safetensors.U8}
}

// readQuantizer reads the tensors of a question: input, data, scale, global, zero_point; of the inverse output.
func readQuantizer(f *safetensors.File, a judged, s quantize.Spec) (*quantizer.Question, error) {
	q := &quantizer.Question{
		Op: a.op, Spec: s, Global: slices.Contains(f.Names(), "global"), Output: &quantize.Tensor{Global: 1},
	}
	name := "input"
	if a.op == "dequantize" {
		name = a.output
	}
	var err error
	if q.Input, err = readFloats(f, name); err != nil {
		return nil, err
	}
	q.Output.Shape = q.Input.Shape
	data, err := named(f, "data")
	if err != nil {
		return nil, err
	}
	if want := quantizedDTypes(s.Element); !slices.Contains(want, data.DType) {
		return nil, fmt.Errorf("data: dtype %s: want %v", data.DType, want)
	}
	if q.Output.Codes, q.Packed, err = s.Unpacked(data.Bytes(), data.Shape, q.Input.Shape); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	g, err := s.Grid(q.Input.Shape)
	if err != nil || s.Kind == quantize.NoScale {
		return q, err
	}
	if q.Output.Scales, err = readScales(f, s.Kind, g); err != nil {
		return nil, err
	}
	return q, readOthers(f, q, g)
}

// readOthers reads the scale of scales and the zero points.
func readOthers(f *safetensors.File, q *quantizer.Question, g *quantize.Grid) error {
	if q.Global {
		t, err := readFloats(f, "global")
		switch {
		case err != nil:
			return err
		case len(t.Data) != 1 || t.Format != fp16.Float32:
			return fmt.Errorf("global: %v numbers of shape %v: want one of float32", t.Format, t.Shape)
		case q.Spec.Kind != quantize.EightBits:
			return fmt.Errorf("global: %s has no scale of scales: want it of nvfp4", q.Spec.Name)
		}
		q.Output.Global = t.Data[0]
	}
	if !slices.Contains(f.Names(), "zero_point") {
		if q.Spec.Rule == quantize.MinMax {
			return fmt.Errorf("no tensor zero_point: want it by the rule minmax, of %.200q", f.Names())
		}
		return nil
	}
	t, err := f.Tensor("zero_point")
	if err != nil {
		return err
	}
	if !q.Spec.Element.Whole {
		return fmt.Errorf("zero_point: %s has none", q.Spec.Name)
	}
	if !squeezedEqual(t.Shape, g.Shape) {
		return fmt.Errorf("zero_point: shape %v: want that of the scales, %v", t.Shape, g.Shape)
	}
	v, err := t.Int64s()
	if err != nil {
		return err
	}
	for _, z := range v {
		if z < int64(q.Spec.Element.Low) || z > int64(q.Spec.Element.High) {
			return fmt.Errorf("zero_point: %d: want numbers of %s", z, q.Spec.Name)
		}
		q.Output.Zeros = append(q.Output.Zeros, int(z))
	}
	return nil
}

// named is a tensor of a file.
func named(f *safetensors.File, name string) (*safetensors.Tensor, error) {
	if !slices.Contains(f.Names(), name) {
		return nil, fmt.Errorf("no tensor %.60q: want it beside %.200q", name, f.Names())
	}
	return f.Tensor(name)
}

// readFloats reads numbers of float32 or a half format.
func readFloats(f *safetensors.File, name string) (*tensor.Tensor, error) {
	t, err := named(f, name)
	if err != nil {
		return nil, err
	}
	format, ok := t.DType.Format()
	if !ok || format == fp16.Float64 {
		return nil, fmt.Errorf("%s: dtype %s: want F32, F16 or BF16", name, t.DType)
	}
	v, err := t.Float64s()
	if err != nil {
		return nil, err
	}
	return tensor.Of(format, v, t.Shape...), nil
}

// numbersOf are the numbers of a tensor in float64, also of those of 8 bits.
func numbersOf(t *safetensors.Tensor) ([]float64, error) {
	n, ok := t.DType.Narrow()
	if !ok {
		return t.Float64s()
	}
	return decoded(n, t), nil
}

// decoded are the numbers of codes of a format.
func decoded(n fp16.Narrow, t *safetensors.Tensor) []float64 {
	v := make([]float64, t.Len())
	for i, code := range t.Bytes() {
		v[i] = n.Decode(code)
	}
	return v
}

// readScales reads the scales of blocks.
func readScales(f *safetensors.File, kind quantize.ScaleKind, g *quantize.Grid) ([]float64, error) {
	t, err := named(f, "scale")
	if err != nil {
		return nil, err
	}
	if !squeezedEqual(t.Shape, g.Shape) {
		return nil, fmt.Errorf("scale: shape %v: want %v, one for each block of %v", t.Shape, g.Shape, g.Sizes)
	}
	if kind == quantize.Float32 {
		s, err := readFloats(f, "scale")
		if err != nil {
			return nil, err
		}
		return s.Data, nil
	}
	n := map[quantize.ScaleKind]fp16.Narrow{quantize.PowerOf2: fp16.E8M0, quantize.EightBits: fp16.E4M3}[kind]
	if d, _ := safetensors.DTypeOfNarrow(n); t.DType != d && t.DType != safetensors.U8 {
		return nil, fmt.Errorf("scale: dtype %s: want %s or U8", t.DType, d)
	}
	return decoded(n, t), nil
}

// squeezedEqual compares shapes without the axes of one place.
func squeezedEqual(a, b []int) bool {
	long := func(shape []int) []int {
		return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
	}
	return slices.Equal(long(a), long(b))
}

// quantizerText is a report for people.
func quantizerText(r *quantizer.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", r.Verdict, r.Op)
	if r.Format != "" {
		b.WriteString(map[string]string{"quantize": " to ", "dequantize": " from "}[r.Op] + r.Format)
	}
	if r.Rule != "" {
		b.WriteString(", " + r.Rule)
	}
	b.WriteByte('\n')
	if r.Reason != "" {
		b.WriteString(indented(r.Reason))
	}
	if r.Fault != "" {
		b.WriteString(indented("fault: " + r.Fault))
		b.WriteString(indented("to do: " + r.Advice))
	}
	if r.Unexplained > 0 {
		b.WriteString(indented(fmt.Sprintf("this fault does not explain %s", cli.Plural(r.Unexplained, "number"))))
	}
	for _, o := range r.Outputs {
		b.WriteString(indented(outputText(o)))
	}
	if n := len(r.Blind); n > 0 {
		var names []string
		for _, id := range r.Blind {
			names = append(names, strings.TrimPrefix(id, "quantize."))
		}
		b.WriteString(indented("this data would not show: " + strings.Join(names, ", ")))
	}
	return b.String()
}

// outputText is a row of the report.
func outputText(o quantizer.Output) string {
	if w := o.Worst; w != nil {
		return fmt.Sprintf("%s: %d of %d are wrong, first %v: %s, right is %s",
			o.Name, o.Violations, o.Elements, w.Index, w.Got, strings.Join(w.Want, " or "))
	}
	by := ", each by one or another of the right ways"
	switch {
	case slices.Contains(o.Ways, quantize.AnyWay):
		by = ""
	case len(o.Ways) > 0:
		by = " by " + strings.Join(o.Ways, "; or by ")
	}
	return fmt.Sprintf("%s: all %d are right%s", o.Name, o.Elements, by)
}
