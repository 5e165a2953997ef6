package onnx_test

import (
	"bytes"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/refrun/refrun/onnx"
)

// message is a message of protocol buffers under construction.
type message []byte

func (m message) num(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m message) text(field protowire.Number, s ...string) message {
	for _, s := range s {
		m = protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
	}
	return m
}

func (m message) in(field protowire.Number, of ...message) message {
	for _, b := range of {
		m = protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
	}
	return m
}

// modelOf is a model of that opset with a graph.
func modelOf(opset uint64, graph message, functions ...message) message {
	return message{}.num(1, 8).text(2, "test").in(7, graph).in(8, message{}.text(1, "").num(2, opset)).in(25, functions...)
}

// nodeOf is a node, with inputs and outputs of names.
func nodeOf(op string, in, out []string, attributes ...message) message {
	return message{}.text(1, in...).text(2, out...).text(4, op).in(5, attributes...)
}

func intOf(name string, v int) message {
	return message{}.text(1, name).num(3, uint64(v)).num(20, 2)
}

func intsOf(name string, v ...int) message {
	m := message{}.text(1, name).num(20, 7)
	for _, v := range v {
		m = m.num(8, uint64(v))
	}
	return m
}

func floatOf(name string, v float32) message {
	m := message{}.text(1, name).num(20, 1)
	return protowire.AppendFixed32(protowire.AppendTag(m, 2, protowire.Fixed32Type), math.Float32bits(v))
}

func textOf(name, v string) message { return message{}.text(1, name).text(4, v).num(20, 3) }

func textsOf(name string, v ...string) message {
	return message{}.text(1, name).text(9, v...).num(20, 8)
}

func graphOf(name string, v message) message { return message{}.text(1, name).in(6, v).num(20, 5) }

func refOf(name, of string) message { return message{}.text(1, name).text(21, of) }

// valueOf is an input or output of a type and of sizes, or of names of sizes.
func valueOf(name string, d onnx.DType, shape ...any) message {
	var dims message
	for _, s := range shape {
		switch s := s.(type) {
		case int:
			dims = dims.in(1, message{}.num(1, uint64(s)))
		case string:
			dims = dims.in(1, message{}.text(2, s))
		}
	}
	return message{}.text(1, name).in(2, message{}.in(1, message{}.num(1, uint64(d)).in(2, dims)))
}

// tensorOf is a tensor with raw data.
func tensorOf(name string, d onnx.DType, raw []byte, shape ...int) message {
	m := message{}
	for _, n := range shape {
		m = m.num(1, uint64(n))
	}
	return m.num(2, uint64(d)).text(8, name).in(9, raw)
}

// wholesOf is a tensor of int64 numbers.
func wholesOf(name string, v ...int) message {
	var b []byte
	for _, n := range v {
		b = protowire.AppendFixed64(b, uint64(n))
	}
	return tensorOf(name, onnx.Int64, b, len(v))
}

// floatsOf is a tensor of float32 numbers in float_data.
func floatsOf(name string, shape []int, v ...float32) message {
	m := message{}
	for _, n := range shape {
		m = m.num(1, uint64(n))
	}
	var b []byte
	for _, x := range v {
		b = protowire.AppendFixed32(b, math.Float32bits(x))
	}
	return m.num(2, 1).text(8, name).in(4, b)
}

// graphIs is a graph of nodes, constants, inputs and outputs.
func graphIs(nodes, constants, inputs, outputs []message) message {
	return message{}.in(1, nodes...).in(5, constants...).in(11, inputs...).in(12, outputs...)
}

func read(b []byte) (*onnx.Model, error) {
	return onnx.Read(bytes.NewReader(b), int64(len(b)), onnx.Options{})
}

// names is a list of names.
func names(s ...string) []string { return s }

// all is a list of messages.
func all(m ...message) []message { return m }
