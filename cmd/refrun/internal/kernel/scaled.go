package kernel

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/ground/attr"
	"github.com/refrun/refrun/internal/ground/disk"
	"github.com/refrun/refrun/internal/op/quantize"
	"github.com/refrun/refrun/internal/oracle/judge"
	"github.com/refrun/refrun/internal/oracle/quantizer"
	"github.com/refrun/refrun/safetensors"
	"github.com/refrun/refrun/tensor"
)

// judgeScaled reads a product of quantized operands and judges it.
func judgeScaled(c *cli.Command, path string, a judged) error {
	text, err := attributesOf(a.attributes)
	if err != nil {
		return err
	}
	var of struct {
		Format string `json:"format"` // of operands that are kept as bytes
		Order  string `json:"order"`
	}
	if err := attr.Read(text, &of); err != nil {
		return fmt.Errorf("--attr: %w", err)
	}
	var s quantize.Spec // that has a name if there is one
	switch {
	case of.Format != "":
		if s, err = quantize.Parse(of.Format, quantize.Options{Order: of.Order}); err != nil {
			return err
		}
	case of.Order != "":
		return fmt.Errorf("order: %.40q: want it with a format of 4 bits", of.Order)
	}
	f, err := openKernel(path)
	if err != nil {
		return err
	}
	p, err := readScaled(f, a.output, s)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r, form, err := quantizer.CheckProduct(*p)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	all := &scaledReport{kernelReport: kernelReport{Op: a.op, Report: r, Diagnosis: r.Fault}, Form: form}
	all.Text = judgedText(&all.kernelReport) + indented(form)
	return printJudged(c, all, all.Text, r.Verdict, a.report)
}

// scaledReport is what the --json of a product of quantized operands prints.
type scaledReport struct {
	kernelReport
	Form string `json:"form"` // where the scales are applied, or the units that sums are of
}

// readScaled reads the tensors of a product.
func readScaled(f *safetensors.File, output string, s quantize.Spec) (p *quantizer.Product, err error) {
	p = &quantizer.Product{}
	if p.A, p.OfA, err = readOperand(f, "input", s, false); err != nil {
		return nil, err
	}
	if p.B, p.OfB, err = readOperand(f, "other", s, true); err != nil {
		return nil, err
	}
	if p.ScaleA, err = readScale(f, "scale_a", s.Kind); err != nil {
		return nil, err
	}
	if p.ScaleB, err = readScale(f, "scale_b", s.Kind); err != nil {
		return nil, err
	}
	if slices.Contains(f.Names(), "bias") {
		if p.Bias, err = readFloats(f, "bias"); err != nil {
			return nil, err
		}
	}
	t, err := named(f, output)
	if err != nil {
		return nil, err
	}
	n, narrow := t.DType.Narrow()
	if !narrow {
		p.Output, err = readFloats(f, output)
		return p, err
	}
	p.Store = &n
	p.Output = tensor.Of(fp16.Float32, decoded(n, t), t.Shape...)
	return p, nil
}

// readOperand reads the numbers of codes. Two a byte are along K: of the first operand the last axis, of the second the
// first.
func readOperand(f *safetensors.File, name string, s quantize.Spec, rows bool) (*tensor.Tensor, fp16.Narrow, error) {
	t, err := named(f, name)
	if err != nil {
		return nil, 0, err
	}
	n, ok := t.DType.Narrow()
	switch {
	case ok:
		return tensor.Of(fp16.Float32, decoded(n, t), t.Shape...), n, nil
	case t.DType != safetensors.U8 || s.Name == "" || s.Element.Whole || len(t.Shape) != 2:
		return nil, 0, fmt.Errorf("%s: dtype %s of shape %v: want a matrix of F8_E4M3 or F8_E5M2, or of U8 with format",
			name, t.DType, t.Shape)
	}
	n = s.Element.Narrow
	raw, shape := t.Bytes(), slices.Clone(t.Shape)
	if n.Bits() > 4 {
		return tensor.Of(fp16.Float32, decoded(n, t), shape...), n, nil
	}
	codes := quantize.Unpack(raw, s.High) // the two of each byte
	y := tensor.New(fp16.Float32, shape[0], 2*shape[1])
	if rows {
		y = tensor.New(fp16.Float32, 2*shape[0], shape[1])
	}
	for i, code := range codes {
		to := i
		if rows {
			row, column := i/2/shape[1], i/2%shape[1]
			to = (2*row+i%2)*shape[1] + column
		}
		y.Data[to] = n.Decode(code)
	}
	return y, n, nil
}

// readScale reads the scales of an operand, as numbers or as their codes.
func readScale(f *safetensors.File, name string, kind quantize.ScaleKind) (*tensor.Tensor, error) {
	t, err := named(f, name)
	if err != nil {
		return nil, err
	}
	n, ok := t.DType.Narrow()
	if t.DType == safetensors.U8 {
		n, ok = map[quantize.ScaleKind]fp16.Narrow{quantize.PowerOf2: fp16.E8M0, quantize.EightBits: fp16.E4M3}[kind]
	}
	if !ok {
		return readFloats(f, name)
	}
	return tensor.Of(fp16.Float32, decoded(n, t), t.Shape...), nil
}

// printJudged prints a report and its page, and returns what the verdict makes of the command.
func printJudged(c *cli.Command, r any, text, verdict, page string) error {
	if c.Json {
		if err := c.PrintJSON(r); err != nil {
			return err
		}
	}
	c.Print(text)
	if page != "" {
		if err := disk.WriteFile(page, kernelPage(text), 0o644); err != nil {
			return err
		}
	}
	switch verdict {
	case judge.Fail:
		return cli.ErrFailed
	case judge.NoPower:
		return cli.ErrNoPower
	}
	return nil
}
