package asm

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestISA: the flag, then the environment, then the best; a backend that is
// not there is an error and never another backend.
func TestISA(t *testing.T) {
	for _, k := range []struct{ flag, env, want string }{
		{"", "", backends[0]}, {"auto", "", backends[0]}, {"", "auto", backends[0]}, {"auto", "sse2", backends[0]},
		{"purego", "", "purego"}, {"", "purego", "purego"}, {"purego", "sse2", "purego"},
		{"sse2", "", `!--isa: "sse2": want auto, purego, avx2, avx512 or neon`},
		{"", "sse2", `!REFRUN_ISA: "sse2": want auto, purego, avx2, avx512 or neon`},
		{"Auto", "", `!--isa: "Auto": want `}, {" purego", "", `!--isa: " purego": want `}, {"", " ", `!REFRUN_ISA: " ": want `},
	} {
		t.Setenv("REFRUN_ISA", k.env)
		got, err := ISA(k.flag)
		if want, refused := strings.CutPrefix(k.want, "!"); refused {
			if err == nil || got != "" || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("ISA(%q), REFRUN_ISA=%q: %q, %v, want error %s", k.flag, k.env, got, err, want)
			}
		} else if got != want || err != nil {
			t.Errorf("ISA(%q), REFRUN_ISA=%q: %q, %v, want %s", k.flag, k.env, got, err, want)
		}
	}
	t.Setenv("REFRUN_ISA", "")
	for _, name := range planned {
		if slices.Contains(backends, name) {
			t.Errorf("%s is planned and there", name)
		}
		if _, err := ISA(name); err == nil || !strings.Contains(err.Error(), "has no kernels in this version") {
			t.Errorf("ISA(%q): %v", name, err)
		}
	}
	for _, name := range backends {
		if got, err := ISA(name); got != name || err != nil {
			t.Errorf("ISA(%q): %q, %v", name, got, err)
		}
	}
}

// TestFeatures asks another detector.
func TestFeatures(t *testing.T) {
	have := Features()
	for name, other := range map[string]bool{
		"avx2": cpu.X86.HasAVX2, "fma": cpu.X86.HasFMA,
		"avx512f": cpu.X86.HasAVX512F, "avx512dq": cpu.X86.HasAVX512DQ, "avx512bw": cpu.X86.HasAVX512BW, "avx512vl": cpu.X86.HasAVX512VL,
		"avx512_bf16": cpu.X86.HasAVX512BF16,
		"asimd":       cpu.ARM64.HasASIMD, "fphp": cpu.ARM64.HasFPHP, "asimdhp": cpu.ARM64.HasASIMDHP, "sve": cpu.ARM64.HasSVE,
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
