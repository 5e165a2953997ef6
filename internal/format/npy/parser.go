package npy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/refrun/refrun/internal/ground/fault"
)

// parser reads the header's text, a Python dict literal of three keys:
//
//	{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
//
// numpy evaluates any literal. Here only what can be right is read: strings in
// either quotes without escapes, True and False, and tuples of decimal
// integers; keys in any order, spaces and newlines between all of them.
type parser struct {
	source
	rest string // what is not read yet
}

func (p *parser) dict(h *header) error {
	if !p.token("{") {
		return p.expected("header", "a Python dict, beginning with {")
	}
	missing := []string{"descr", "fortran_order", "shape"}
	keys := slices.Clone(missing)
	for !p.token("}") {
		key, ok := p.quoted()
		if !ok || !p.token(":") {
			return p.expected("header", "'key': or }")
		}
		i := slices.Index(missing, key)
		switch {
		case i >= 0:
			missing = slices.Delete(missing, i, i+1)
		case slices.Contains(keys, key):
			return p.wrong("header", fault.Text(key), "each key once")
		default:
			return p.wrong("header", fault.Text(key), "only the keys "+strings.Join(keys, ", "))
		}
		if err := p.value(key, h); err != nil {
			return err
		}
		if !p.token(",") {
			if p.token("}") {
				break
			}
			return p.expected(key, ", or } after the value")
		}
	}
	if p.space(); p.rest != "" {
		return p.expected("header", "only spaces and a newline after the dict")
	}
	if len(missing) > 0 {
		return p.wrong(missing[0], "missing", "the keys "+strings.Join(keys, ", "))
	}
	return nil
}

func (p *parser) value(key string, h *header) (err error) {
	var ok bool
	switch key {
	case "descr":
		if h.descr, ok = p.quoted(); !ok {
			return p.expected(key, "in quotes "+known)
		}
	case "fortran_order":
		if h.fortran = p.token("True"); !h.fortran && !p.token("False") {
			return p.expected(key, "True or False")
		}
	case "shape":
		h.shape, err = p.tuple(key)
	}
	return err
}

// tuple reads (), (1,), (1, 2) or (1, 2,). Without a comma, (1) is no tuple.
func (p *parser) tuple(key string) ([]int, error) {
	tuple, comma := []int{}, true
	if !p.token("(") {
		return nil, p.expected(key, "a tuple, beginning with (")
	}
	for !p.token(")") {
		if !comma {
			return nil, p.expected(key, ", or )")
		}
		p.space()
		digits := p.rest[:len(p.rest)-len(strings.TrimLeft(p.rest, "0123456789"))]
		n, err := strconv.ParseUint(digits, 10, strconv.IntSize-1)
		if err != nil || digits[0] == '0' && len(digits) > 1 {
			return nil, p.expected(key, "integers from 0 to 2^"+strconv.Itoa(strconv.IntSize-1)+"-1")
		}
		p.rest = p.rest[len(digits):]
		tuple = append(tuple, int(n))
		comma = p.token(",")
	}
	if len(tuple) == 1 && !comma {
		return nil, p.wrong(key, "("+strconv.Itoa(tuple[0])+")", "a tuple, ("+strconv.Itoa(tuple[0])+",)")
	}
	return tuple, nil
}

// quoted reads a string; what would need an escape ends in no string.
func (p *parser) quoted() (s string, ok bool) {
	p.space()
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		return "", false
	}
	s, after, ok := strings.Cut(p.rest[1:], p.rest[:1])
	if !ok || strings.ContainsAny(s, "\\\n\r") {
		return "", false
	}
	p.rest = after
	return s, true
}

// token reads t, if it is next.
func (p *parser) token(t string) bool {
	p.space()
	after, ok := strings.CutPrefix(p.rest, t)
	p.rest = after
	return ok
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// expected reports that what is next is not what was wanted.
func (p *parser) expected(field, want string) error {
	p.space()
	return p.wrong(field, fault.Text(p.rest), want)
}
