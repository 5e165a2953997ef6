package setup

import (
	"fmt"
	"slices"

	"github.com/refrun/refrun/cmd/refrun/internal/cli"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/rollout"
)

// OverflowNotes says where float16 numbers left their range. Of a resumed run only the
// last steps were seen.
func OverflowNotes(o *rollout.Overflow, resumed bool) []string {
	if o == nil {
		return nil
	}
	since := ""
	if resumed {
		since = " since the run was resumed"
	}
	return []string{fmt.Sprintf("float16 overflow%s: first at step %d in %s, %s",
		since, o.Step, o.Layer, cli.Plural(o.Elements, "element"))}
}

// NoiseNotes says that an operator which draws random numbers was given none.
func NoiseNotes(cs *rollout.Case, stream string) []string {
	draws := cs.Operator.NoiseType != "" ||
		slices.ContainsFunc(cs.Operator.Nodes, func(n operator.NodeConfig) bool { return n.NoiseType != "" })
	if !draws || stream != "none" {
		return nil
	}
	return []string{"the operator's noise was left out"}
}

// IgnoredNotes names the parameters that reach no part of the operator, and what was left out of
// the names of its weights.
func IgnoredNotes(cs *rollout.Case) []string {
	var notes []string
	for _, key := range cs.Operator.Ignored {
		notes = append(notes, "operator."+key+" is ignored, as Spinlock's builder ignores it")
	}
	if cs.Weights != nil {
		if prefix := operator.Prefix(cs.Operator, cs.Weights); prefix != "" {
			notes = append(notes, "weights: "+prefix+" before all names is left out: the module was wrapped")
		}
	}
	return notes
}

// OperatorText describes an operator in a few words.
func OperatorText(o operator.Config) string {
	if u := o.UAFNO; u != nil {
		return fmt.Sprintf("U-AFNO of %s, %s of %s, %d channels at most, %s norm, %s",
			cli.Plural(u.EncoderLevels, "level"), cli.Plural(u.AFNOBlocks, "AFNO block"), cli.Plural(u.Modes, "mode"),
			o.BaseChannels<<min(u.EncoderLevels, 3), o.Normalization, o.Activation)
	}
	if f := o.FNO; f != nil {
		return fmt.Sprintf("FNO of %s of %d x %d modes, %s, %s",
			cli.Plural(f.Layers, "layer"), f.Modes[0], f.Modes[1], cli.Plural(f.HiddenChannels, "channel"), o.Activation)
	}
	if o.Nodes == nil {
		return fmt.Sprintf("%s of %dx%d convolutions, %d channels at most, %s norm, %s", cli.Plural(o.NumLayers+1, "block"),
			o.KernelSize, o.KernelSize, o.BaseChannels<<min(max(o.NumLayers-1, 0), 2), o.Normalization, o.Activation)
	}
	convs, widest := 0, 0
	for _, n := range o.Nodes {
		if n.Op == "conv" {
			convs, widest = convs+1, max(widest, n.OutChannels)
		}
	}
	return fmt.Sprintf("%s, of which %s, %s at most",
		cli.Plural(len(o.Nodes), "operation"), cli.Plural(convs, "convolution"), cli.Plural(widest, "channel"))
}
