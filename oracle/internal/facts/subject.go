package facts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refrun/refrun/internal/op/act"
	"github.com/refrun/refrun/internal/oracle/words"
	"github.com/refrun/refrun/operator"
	"github.com/refrun/refrun/oracle/internal/measure"
	"github.com/refrun/refrun/rollout"
)

// stepSubject describes a step graph in a few words.
func stepSubject(g *rollout.StepGraph) string {
	const most = 6
	var names, states []string
	for i := range g.Network.Graph.Nodes {
		if name := g.Network.Graph.Nodes[i].Op.Name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	for i := range g.States {
		states = append(states, g.States[i].In())
	}
	return fmt.Sprintf("step graph of %s, %s: %s",
		strings.Join(states, ", "), measure.Count(len(g.Network.Graph.Nodes), "operation"), strings.Join(names, ", "))
}

// subject describes an operator and its rollout in a few words.
func subject(nodes []operator.Node, ro rollout.Config) string {
	var convs, kernels, norms, acts, noises []string
	widest := 0
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for i := range nodes {
		switch n := &nodes[i]; n.Op {
		case operator.OpConv:
			convs = append(convs, n.Name)
			add(&kernels, fmt.Sprintf("%dx%d", n.Weight.Shape[2], n.Weight.Shape[3]))
			widest = max(widest, n.Weight.Shape[0])
		case operator.OpNorm:
			add(&norms, n.Norm+" norm")
		case operator.OpAct:
			if n.Act != act.Identity {
				add(&acts, n.Act.String())
			}
		case operator.OpNoise:
			add(&noises, fmt.Sprintf("%v noise %.3g", n.Noise.Type, n.Noise.Scale))
		}
	}
	parts := []string{fmt.Sprintf("%s %s, at most %s",
		measure.Count(len(convs), "convolution"), strings.Join(kernels, "/"), measure.Count(widest, "channel"))}
	parts = append(append(append(parts, norms...), acts...), noises...)
	policy := string(ro.Policy)
	switch ro.Policy {
	case rollout.Convex:
		policy += " " + words.Three(ro.Alpha)
	case rollout.Residual:
		policy += " " + words.Three(ro.Dt)
	}
	if parts = append(parts, policy); ro.Normalization != rollout.NoNormalization {
		parts = append(parts, string(ro.Normalization))
	}
	return strings.Join(parts, ", ")
}
