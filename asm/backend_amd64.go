//go:build !purego

package asm

import "github.com/klauspost/cpuid/v2"

// backends are the instruction sets of this CPU that kernels exist for, best
// first.
var backends = func() []backend {
	all := []backend{{name: "purego"}}
	if cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3) {
		all = append([]backend{{"avx2", &winogradAVX2}}, all...)
	}
	if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512DQ, cpuid.AVX512BW, cpuid.AVX512VL) {
		all = append([]backend{{"avx512", &winogradAVX512}}, all...)
	}
	return all
}()

var winogradAVX512 = Winograd{
	Tiles: 13, Outputs: 16,
	Input: winogradInputAVX512, Multiply: winogradMultiplyAVX512, Dot: winogradDotAVX512, Pack: packLineAVX2, Unpack: unpackTileAVX2,
	Output: [Formats]func(*float64, float64, *float64, *float32, int, *uint8, *float64){
		winogradOutputFloat32AVX512, winogradOutputFloat16AVX512, winogradOutputBFloat16AVX512},
}

var winogradAVX2 = Winograd{
	Tiles: 6, Outputs: 8,
	Input: winogradInputAVX2, Multiply: winogradMultiplyAVX2, Dot: winogradDotAVX2, Pack: packLineAVX2, Unpack: unpackTileAVX2,
	Output: [Formats]func(*float64, float64, *float64, *float32, int, *uint8, *float64){
		winogradOutputFloat32AVX2, winogradOutputFloat16AVX2, winogradOutputBFloat16AVX2},
}
