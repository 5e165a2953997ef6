package asm

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestUse: the flag, then the environment, then the best; a backend that is
// not there is an error and never another backend.
func TestUse(t *testing.T) {
	defer inUse.Store(inUse.Load())
	best := ISAs()[0]
	for _, k := range []struct{ flag, env, want string }{
		{"", "", best}, {"auto", "", best}, {"", "auto", best}, {"auto", "sse2", best},
		{"purego", "", "purego"}, {"", "purego", "purego"}, {"purego", "sse2", "purego"},
		{"sse2", "", `!--isa: "sse2": want auto, avx512, avx2, neon, purego`},
		{"", "sse2", `!REFRUN_ISA: "sse2": want auto, avx512, avx2, neon, purego`},
		{"Auto", "", `!--isa: "Auto": want `}, {" purego", "", `!--isa: " purego": want `},
		{"", " ", `!REFRUN_ISA: " ": want `},
	} {
		t.Setenv("REFRUN_ISA", k.env)
		inUse.Store(nil)
		err := Use(k.flag)
		if want, refused := strings.CutPrefix(k.want, "!"); refused {
			if err == nil || inUse.Load() != nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("Use(%q), REFRUN_ISA=%q: %v, want error %s", k.flag, k.env, err, want)
			}
		} else if err != nil || ISA() != k.want {
			t.Errorf("Use(%q), REFRUN_ISA=%q: %q, %v, want %s", k.flag, k.env, ISA(), err, k.want)
		}
	}
	t.Setenv("REFRUN_ISA", "")
	for _, name := range known {
		err := Use(name)
		switch there := slices.Contains(ISAs(), name); {
		case there && (err != nil || ISA() != name):
			t.Errorf("Use(%q): %q, %v", name, ISA(), err)
		case !there && (err == nil || !strings.Contains(err.Error(), "this CPU or build does not have it: want auto, ")):
			t.Errorf("Use(%q): %v", name, err)
		}
	}
	// Without Use, the environment decides at the first question.
	t.Setenv("REFRUN_ISA", "purego")
	inUse.Store(nil)
	if ISA() != "purego" {
		t.Errorf("REFRUN_ISA=purego runs %s", ISA())
	}
	t.Setenv("REFRUN_ISA", "sse2")
	inUse.Store(nil)
	func() {
		defer func() {
			if r := recover(); r != `asm: REFRUN_ISA: "sse2": want auto, avx512, avx2, neon, purego` {
				t.Errorf("panic %v", r)
			}
		}()
		ISA()
	}()
}

// TestFeatures asks another detector.
func TestFeatures(t *testing.T) {
	have := Features()
	for name, other := range map[string]bool{
		"avx2": cpu.X86.HasAVX2, "fma": cpu.X86.HasFMA,
		"avx512f": cpu.X86.HasAVX512F, "avx512dq": cpu.X86.HasAVX512DQ, "avx512bw": cpu.X86.HasAVX512BW,
		"avx512vl":    cpu.X86.HasAVX512VL,
		"avx512_bf16": cpu.X86.HasAVX512BF16,
		"asimd":       cpu.ARM64.HasASIMD, "fphp": cpu.ARM64.HasFPHP, "asimdhp": cpu.ARM64.HasASIMDHP,
		"sve": cpu.ARM64.HasSVE,
	} {
		if slices.Contains(have, name) != other {
			t.Errorf("%s: %v here, %v by golang.org/x/sys/cpu", name, !other, other)
		}
	}
	for i, name := range have {
		if name == "" || name != strings.ToLower(name) || slices.Contains(have[:i], name) {
			t.Errorf("feature %q among %v", name, have)
		}
	}
	if strings.TrimSpace(CPU()) != CPU() {
		t.Errorf("processor %q", CPU())
	}
}
