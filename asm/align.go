package asm

import "unsafe"

// Align returns how many numbers after p the next cache line begins.
func Align(p *float64) int { return int(-uintptr(unsafe.Pointer(p)) % 64 / 8) }

// AlignSingle is Align of float32 numbers.
func AlignSingle(p *float32) int { return int(-uintptr(unsafe.Pointer(p)) % 64 / 4) }
