//go:build !purego

package asm

import "github.com/klauspost/cpuid/v2"

// backends are the instruction sets of this CPU that kernels exist for, best
// first.
var backends = func() []backend {
	all := []backend{{name: "purego"}}
	if cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3) {
		all = append([]backend{{name: "avx2", act: &actAVX2, winograd: &winogradAVX2, winograd5: &winograd5AVX2, winograd7: &winograd7AVX2, noise: &noiseAVX2, direct: &directAVX2, norm: &normAVX2}}, all...)
	}
	if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512DQ, cpuid.AVX512BW, cpuid.AVX512VL) {
		all = append([]backend{{name: "avx512", act: &actAVX512, winograd: &winogradAVX512, winograd5: &winograd5AVX512, winograd7: &winograd7AVX512, noise: &noiseAVX512, direct: &directAVX512, norm: &normAVX512}}, all...)
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

var winograd5AVX512 = Winograd{
	Tiles: 13, Outputs: 16,
	Input: winograd5x5InputAVX512, Multiply: winograd5x5MultiplyAVX512, Weigh: winograd5x5WeighAVX512, Dot: winograd5x5DotAVX512, Pack: packLineAVX2, Unpack: unpackTileAVX2,
	Output: [Formats]func(*float64, float64, *float64, *float32, int, *uint8, *float64){
		winograd5x5OutputFloat32AVX512, winograd5x5OutputFloat16AVX512, winograd5x5OutputBFloat16AVX512},
}

var winograd7AVX512 = Winograd{
	Tiles: 13, Outputs: 16,
	Input: winograd7x7InputAVX512, Multiply: winograd7x7MultiplyAVX512, Weigh: winograd7x7WeighAVX512, Dot: winograd7x7DotAVX512, Pack: packLineAVX2, Unpack: unpackTileAVX2,
	Output: [Formats]func(*float64, float64, *float64, *float32, int, *uint8, *float64){
		winograd7x7OutputFloat32AVX512, winograd7x7OutputFloat16AVX512, winograd7x7OutputBFloat16AVX512},
}

var winograd5AVX2 = Winograd{
	Tiles: 6, Outputs: 8,
	Input: winograd5x5InputAVX2, Multiply: winograd5x5MultiplyAVX2, Weigh: winograd5x5WeighAVX2, Dot: winograd5x5DotAVX2, Pack: packLineAVX2, Unpack: unpackTileAVX2,
	Output: [Formats]func(*float64, float64, *float64, *float32, int, *uint8, *float64){
		winograd5x5OutputFloat32AVX2, winograd5x5OutputFloat16AVX2, winograd5x5OutputBFloat16AVX2},
}

var winograd7AVX2 = Winograd{
	Tiles: 6, Outputs: 8,
	Input: winograd7x7InputAVX2, Multiply: winograd7x7MultiplyAVX2, Weigh: winograd7x7WeighAVX2, Dot: winograd7x7DotAVX2, Pack: packLineAVX2, Unpack: unpackTileAVX2,
	Output: [Formats]func(*float64, float64, *float64, *float32, int, *uint8, *float64){
		winograd7x7OutputFloat32AVX2, winograd7x7OutputFloat16AVX2, winograd7x7OutputBFloat16AVX2},
}

var directAVX512 = Direct{
	Outputs: 8, Pixels: 24, AddSquares: addSquaresAVX2,
	Convolve: [Formats + 1]func(*float64, *int, int, *float64, *float64, *float64, *float64, *uint8){
		directFloat32AVX512, directFloat16AVX512, directBFloat16AVX512, directFloat64AVX512},
}

var directAVX2 = Direct{
	Outputs: 4, Pixels: 12, AddSquares: addSquaresAVX2,
	Convolve: [Formats + 1]func(*float64, *int, int, *float64, *float64, *float64, *float64, *uint8){
		directFloat32AVX2, directFloat16AVX2, directBFloat16AVX2, directFloat64AVX2},
}

var normAVX512 = Norm{
	Top: normTopAVX512, Sums: normSumsAVX512,
	Apply: [Formats]func(*float64, *float64, int, *[6]float64, *uint8) uint64{
		normApplyFloat32AVX512, normApplyFloat16AVX512, normApplyBFloat16AVX512},
}

var normAVX2 = Norm{
	Top: normTopAVX2, Sums: normSumsAVX2,
	Apply: [Formats]func(*float64, *float64, int, *[6]float64, *uint8) uint64{
		normApplyFloat32AVX2, normApplyFloat16AVX2, normApplyBFloat16AVX2},
}

var actAVX512 = Act{
	Identity: actIdentityAVX512, ReLU: actReLUAVX512,
	GELU: actGELUAVX512, GELUTanh: actGELUTanhAVX512, SiLU: actSiLUAVX512, Tanh: actTanhAVX512,
}

var actAVX2 = Act{
	Identity: actIdentityAVX2, ReLU: actReLUAVX2,
	GELU: actGELUAVX2, GELUTanh: actGELUTanhAVX2, SiLU: actSiLUAVX2, Tanh: actTanhAVX2,
}

var noiseAVX512 = Noise{
	Lanes:  8,
	Normal: noiseNormalAVX512, Exponential: noiseExponentialAVX512, Bernoulli: noiseBernoulliAVX512, Exact: noiseExactAVX512,
	TorchNormal: noiseTorchNormalAVX2,
	Apply: [Roundings]NoiseApply{
		{noiseAddFloat64AVX512, noiseModulateFloat64AVX512, noiseScaleFloat64AVX512, noiseSignFloat64AVX512},
		{noiseAddFloat32AVX512, noiseModulateFloat32AVX512, noiseScaleFloat32AVX512, noiseSignFloat32AVX512},
		{noiseAddGridAVX512, noiseModulateGridAVX512, noiseScaleGridAVX512, noiseSignGridAVX512},
	},
}

var noiseAVX2 = Noise{
	Lanes:  4,
	Normal: noiseNormalAVX2, Exponential: noiseExponentialAVX2, Bernoulli: noiseBernoulliAVX2, Exact: noiseExactAVX2,
	TorchNormal: noiseTorchNormalAVX2,
	Apply: [Roundings]NoiseApply{
		{noiseAddFloat64AVX2, noiseModulateFloat64AVX2, noiseScaleFloat64AVX2, noiseSignFloat64AVX2},
		{noiseAddFloat32AVX2, noiseModulateFloat32AVX2, noiseScaleFloat32AVX2, noiseSignFloat32AVX2},
		{noiseAddGridAVX2, noiseModulateGridAVX2, noiseScaleGridAVX2, noiseSignGridAVX2},
	},
}
