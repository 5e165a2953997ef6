//go:build !purego

package asm

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"
)

// actVectors is actTable with each number in all lanes of AVX2, which has no operand
// in memory that is broadcast.
var actVectors = func() (all [unsafe.Sizeof(actTable) / 8][4]uint64) {
	for i, w := range *(*[unsafe.Sizeof(actTable) / 8]uint64)(unsafe.Pointer(&actTable)) {
		all[i] = [4]uint64{w, w, w, w}
	}
	return all
}()

// backends are the instruction sets of this CPU that kernels exist for, best
// first.
var backends = func() []backend {
	all := []backend{{name: "purego"}}
	if cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3) {
		all = append([]backend{
			{name: "avx2", act: &actAVX2, winograd: &winogradAVX2, winograd5: &winograd5AVX2, winograd7: &winograd7AVX2,
				fast: &fastAVX2, fast4: &fast4AVX2, fast5: &fast5AVX2, fastTaps: &fastTapsAVX2, fastRows: &fastRowsAVX2,
				noise: &noiseAVX2, direct: &directAVX2, pixels: &pixelsAVX2, lines: &linesAVX2, norm: &normAVX2,
				rows: &rowsAVX2, channels: &channelsAVX2, singles: &singlesAVX2, units: &unitsAVX2, whole: &wholeAVX2,
				measure: &measureAVX2},
		}, all...)
	}
	if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512DQ, cpuid.AVX512BW, cpuid.AVX512VL) {
		all = append([]backend{
			{name: "avx512", act: &actAVX512, winograd: &winogradAVX512, winograd5: &winograd5AVX512,
				winograd7: &winograd7AVX512, fast: &fastAVX512, fast4: &fast4AVX512, fast5: &fast5AVX512,
				fastTaps: &fastTapsAVX512, fastRows: &fastRowsAVX512, noise: &noiseAVX512, direct: &directAVX512,
				pixels: &pixelsAVX512, lines: &linesAVX512, norm: &normAVX512, rows: &rowsAVX512, channels: &channelsAVX512,
				singles: &singlesAVX512, units: &unitsAVX2, whole: &wholeAVX2, measure: &measureAVX2},
		}, all...)
		if cpuid.CPU.Supports(cpuid.AVX512VNNI) {
			all[0].whole = &wholeVNNI
		}
	}
	for i := range all[:len(all)-1] { // those with AVX
		if cpuid.CPU.Supports(cpuid.SHA) {
			all[i].hash = &hashSHANI
		}
		if cpuid.CPU.Supports(cpuid.F16C) {
			all[i].bytes = &bytesAVX2
		}
	}
	return all
}()

var winogradAVX512 = withFew(Winograd{
	Tiles: 13, Outputs: 16,
	Input: winogradInputAVX512, InputRow: winogradInputRowAVX512, Multiply: winogradMultiplyAVX512,
	Weigh: winogradWeighAVX512, Dot: winogradDotAVX512, Pack: packLineAVX2, Unpack: unpackLineAVX2,
	Output: [Formats]func(*float64, int, float64, *float64, *float32, int, *uint8, *float64){
		winogradOutputFloat32AVX512, winogradOutputFloat16AVX512, winogradOutputBFloat16AVX512},
	OutputRow: winogradOutputRowAVX512,
	OutputColumns: [Formats]func(*float64, int, int, float64, *float64, *float32, int, *uint8){
		winogradOutputColumnsFloat32AVX512, winogradOutputColumnsFloat16AVX512, winogradOutputColumnsBFloat16AVX512},
	WideInput: winogradWideInputAVX512, WideOutput: winogradWideOutputAVX512,
})

// withFew adds the same kernels for fewer tiles.
func withFew(w Winograd) Winograd {
	few := w
	few.Tiles, few.Multiply, few.Input, few.Weigh, few.WideInput = 8, winogradMultiply8AVX512, nil, nil, nil
	w.Few = &few
	return w
}

var winogradAVX2 = Winograd{
	Tiles: 6, Outputs: 8,
	Input: winogradInputAVX2, InputRow: winogradInputRowAVX2, Multiply: winogradMultiplyAVX2, Weigh: winogradWeighAVX2,
	Dot: winogradDotAVX2, Pack: packLineAVX2, Unpack: unpackLineAVX2,
	Output: [Formats]func(*float64, int, float64, *float64, *float32, int, *uint8, *float64){
		winogradOutputFloat32AVX2, winogradOutputFloat16AVX2, winogradOutputBFloat16AVX2},
	OutputRow: winogradOutputRowAVX2,
	OutputColumns: [Formats]func(*float64, int, int, float64, *float64, *float32, int, *uint8){
		winogradOutputColumnsFloat32AVX2, winogradOutputColumnsFloat16AVX2, winogradOutputColumnsBFloat16AVX2},
	WideInput: winogradWideInputAVX2, WideOutput: winogradWideOutputAVX2,
}

var winograd5AVX512 = Winograd{
	Tiles: 13, Outputs: 16,
	Input: winograd5x5InputAVX512, InputRow: winograd5x5InputRowAVX512, Multiply: winogradMultiplyAVX512,
	Weigh: winogradWeighAVX512, Dot: winograd5x5DotAVX512, Pack: packLineAVX2, Unpack: unpackLineAVX2,
	Output: [Formats]func(*float64, int, float64, *float64, *float32, int, *uint8, *float64){
		winograd5x5OutputFloat32AVX512, winograd5x5OutputFloat16AVX512, winograd5x5OutputBFloat16AVX512},
	OutputRow: winograd5x5OutputRowAVX512,
	OutputColumns: [Formats]func(*float64, int, int, float64, *float64, *float32, int, *uint8){
		winograd5x5OutputColumnsFloat32AVX512, winograd5x5OutputColumnsFloat16AVX512, winograd5x5OutputColumnsBFloat16AVX512},
}

var winograd7AVX512 = Winograd{
	Tiles: 13, Outputs: 16,
	Input: winograd7x7InputAVX512, InputRow: winograd7x7InputRowAVX512, Multiply: winogradMultiplyAVX512,
	Weigh: winogradWeighAVX512, Dot: winograd7x7DotAVX512, Pack: packLineAVX2, Unpack: unpackLineAVX2,
	Output: [Formats]func(*float64, int, float64, *float64, *float32, int, *uint8, *float64){
		winograd7x7OutputFloat32AVX512, winograd7x7OutputFloat16AVX512, winograd7x7OutputBFloat16AVX512},
	OutputRow: winograd7x7OutputRowAVX512,
	OutputColumns: [Formats]func(*float64, int, int, float64, *float64, *float32, int, *uint8){
		winograd7x7OutputColumnsFloat32AVX512, winograd7x7OutputColumnsFloat16AVX512, winograd7x7OutputColumnsBFloat16AVX512},
}

var winograd5AVX2 = Winograd{
	Tiles: 6, Outputs: 8,
	Input: winograd5x5InputAVX2, InputRow: winograd5x5InputRowAVX2, Multiply: winogradMultiplyAVX2,
	Weigh: winogradWeighAVX2, Dot: winograd5x5DotAVX2, Pack: packLineAVX2, Unpack: unpackLineAVX2,
	Output: [Formats]func(*float64, int, float64, *float64, *float32, int, *uint8, *float64){
		winograd5x5OutputFloat32AVX2, winograd5x5OutputFloat16AVX2, winograd5x5OutputBFloat16AVX2},
	OutputRow: winograd5x5OutputRowAVX2,
	OutputColumns: [Formats]func(*float64, int, int, float64, *float64, *float32, int, *uint8){
		winograd5x5OutputColumnsFloat32AVX2, winograd5x5OutputColumnsFloat16AVX2, winograd5x5OutputColumnsBFloat16AVX2},
}

var winograd7AVX2 = Winograd{
	Tiles: 6, Outputs: 8,
	Input: winograd7x7InputAVX2, InputRow: winograd7x7InputRowAVX2, Multiply: winogradMultiplyAVX2,
	Weigh: winogradWeighAVX2, Dot: winograd7x7DotAVX2, Pack: packLineAVX2, Unpack: unpackLineAVX2,
	Output: [Formats]func(*float64, int, float64, *float64, *float32, int, *uint8, *float64){
		winograd7x7OutputFloat32AVX2, winograd7x7OutputFloat16AVX2, winograd7x7OutputBFloat16AVX2},
	OutputRow: winograd7x7OutputRowAVX2,
	OutputColumns: [Formats]func(*float64, int, int, float64, *float64, *float32, int, *uint8){
		winograd7x7OutputColumnsFloat32AVX2, winograd7x7OutputColumnsFloat16AVX2, winograd7x7OutputColumnsBFloat16AVX2},
}

var (
	fastAVX512 = Fast{
		Tiles: 14, Outputs: 32, Input: fastInputAVX2, InputPair: fastInputAVX512, Multiply: fastMultiplyAVX512,
		MultiplyFewer: fastMultiply13AVX512, Line: fastLineAVX512, Lines: fastLinesAVX512,
		Output: fastOutputAVX2, OutputPair: fastOutputAVX512,
	}
	fast4AVX512 = Fast{Tiles: 14, Outputs: 32, Input: fast4x4InputAVX2, Multiply: fastMultiplyAVX512,
		MultiplyFewer: fastMultiply13AVX512, Output: fast4x4OutputAVX2, OutputPair: fast4x4OutputAVX512}
	fast5AVX512 = Fast{
		Tiles: 14, Outputs: 32, Input: fast5x5InputAVX2, InputPair: fast5x5InputAVX512, Multiply: fastMultiplyAVX512,
		MultiplyFewer: fastMultiply13AVX512, Output: fast5x5OutputAVX2, OutputPair: fast5x5OutputAVX512,
	}
	fastAVX2 = Fast{
		Tiles: 6, Outputs: 16, Input: fastInputAVX2, Multiply: fastMultiplyAVX2,
		Line: fastLineAVX2, Lines: fastLinesAVX2, Output: fastOutputAVX2,
	}
	fast4AVX2 = Fast{
		Tiles: 6, Outputs: 16, Input: fast4x4InputAVX2, Multiply: fastMultiplyAVX2, Output: fast4x4OutputAVX2,
	}
	fast5AVX2 = Fast{
		Tiles: 6, Outputs: 16, Input: fast5x5InputAVX2, Multiply: fastMultiplyAVX2, Output: fast5x5OutputAVX2,
	}

	fastTapsAVX512 = FastTaps{Tiles: 6, Outputs: 16, Convolve: fastTapsOf8AVX2, Convolve4: fastTapsOf4AVX2,
		Wide: &FastTaps{Tiles: 13, Outputs: 32, Convolve: fastTapsOf8AVX512, Convolve4: fastTapsOf4AVX512}}
	fastTapsAVX2 = FastTaps{Tiles: 6, Outputs: 16, Convolve: fastTapsOf8AVX2, Convolve4: fastTapsOf4AVX2}
)

var (
	fastRowsAVX512 = FastRows{GELU: rowFastGELUAVX512, Line: rowFastLineAVX512, LineGELU: rowFastLineGELUAVX512}
	fastRowsAVX2   = FastRows{GELU: rowFastGELUAVX2, Line: rowFastLineAVX2, LineGELU: rowFastLineGELUAVX2}
)

var (
	singlesAVX512 = Singles{Add: singleAddAVX512, Mul: singleMulAVX512, Scale: singleScaleAVX512,
		Shift: singleShiftAVX512, Lay: singleLayAVX2, Blocks: singleBlocksAVX2, Greatest: singleGreatestAVX512,
		Exp: singleExpAVX512, Sums: singleSumsAVX512, Squares: singleSquaresAVX512, Line: singleLineAVX512}
	singlesAVX2 = Singles{Add: singleAddAVX2, Mul: singleMulAVX2, Scale: singleScaleAVX2, Shift: singleShiftAVX2,
		Lay: singleLayAVX2, Blocks: singleBlocksAVX2, Greatest: singleGreatestAVX2, Exp: singleExpAVX2,
		Sums: singleSumsAVX2, Squares: singleSquaresAVX2, Line: singleLineAVX2}
)

var directAVX512 = Direct{
	Outputs: 8, Pixels: 24, Add: directAddAVX512, AddLine: directAddLineAVX512, AddLines: directAddLinesAVX512,
	Widen: directWidenAVX512, Round: [Formats]func(*float64, *float64, *float64, *float64, int, *uint8) uint64{
		directRoundFloat32AVX512, directRoundFloat16AVX512, directRoundBFloat16AVX512,
	}, AddSquares: addSquaresAVX2, SumSquares: sumSquaresAVX2,
	Convolve: [Formats + 1]func(*float64, *int, int, *float64, *float64, *float64, *float64, *uint8){
		directFloat32AVX512, directFloat16AVX512, directBFloat16AVX512, directFloat64AVX512},
}

var directAVX2 = Direct{
	Outputs: 4, Pixels: 12, Add: directAddAVX2, AddLine: directAddLineAVX2, AddLines: directAddLinesAVX2,
	Widen: directWidenAVX2, Round: [Formats]func(*float64, *float64, *float64, *float64, int, *uint8) uint64{
		directRoundFloat32AVX2, directRoundFloat16AVX2, directRoundBFloat16AVX2,
	}, AddSquares: addSquaresAVX2, SumSquares: sumSquaresAVX2,
	Convolve: [Formats + 1]func(*float64, *int, int, *float64, *float64, *float64, *float64, *uint8){
		directFloat32AVX2, directFloat16AVX2, directBFloat16AVX2, directFloat64AVX2},
}

var (
	linesAVX512 = Lines{Add: lineAddAVX512, Mul: lineMulAVX512, Scale: lineScaleAVX512, Greatest: lineGreatestAVX512,
		Narrow: lineNarrowAVX512, Shift: lineShiftAVX512, Widen: lineWidenAVX512, Weave: lineWeaveAVX512, Abreast: 8}
	linesAVX2 = Lines{Add: lineAddAVX2, Mul: lineMulAVX2, Scale: lineScaleAVX2, Greatest: lineGreatestAVX2,
		Narrow: lineNarrowAVX2, Shift: lineShiftAVX2, Widen: lineWidenAVX2, Weave: lineWeaveAVX2, Abreast: 4}
)

var normAVX512 = Norm{
	Top: normTopAVX512, Sums: normSumsAVX512,
	Apply: [Formats]func(*float64, *float64, int, *[6]float64, *uint8) uint64{
		normApplyFloat32AVX512, normApplyFloat16AVX512, normApplyBFloat16AVX512},
	ApplyRow: [Formats]func(*float64, *float64, *float64, *float64, int, *[6]float64, *uint8) uint64{
		normApplyRowFloat32AVX512, normApplyRowFloat16AVX512, normApplyRowBFloat16AVX512},
}

var normAVX2 = Norm{
	Top: normTopAVX2, Sums: normSumsAVX2,
	Apply: [Formats]func(*float64, *float64, int, *[6]float64, *uint8) uint64{
		normApplyFloat32AVX2, normApplyFloat16AVX2, normApplyBFloat16AVX2},
	ApplyRow: [Formats]func(*float64, *float64, *float64, *float64, int, *[6]float64, *uint8) uint64{
		normApplyRowFloat32AVX2, normApplyRowFloat16AVX2, normApplyRowBFloat16AVX2},
}

var actAVX512 = Act{
	Identity: actIdentityAVX512, ReLU: actReLUAVX512,
	GELU: actGELUAVX512, GELUTanh: actGELUTanhAVX512, SiLU: actSiLUAVX512, Sigmoid: actSigmoidAVX512,
	Tanh: actTanhAVX512, Erf: actErfAVX512, ExpBelow: expBelowAVX512,
}

var actAVX2 = Act{
	Identity: actIdentityAVX2, ReLU: actReLUAVX2,
	GELU: actGELUAVX2, GELUTanh: actGELUTanhAVX2, SiLU: actSiLUAVX2, Sigmoid: actSigmoidAVX2, Tanh: actTanhAVX2,
	Erf: actErfAVX2, ExpBelow: expBelowAVX2,
}

var noiseAVX512 = Noise{
	Lanes:  8,
	Normal: noiseNormalAVX512, Exponential: noiseExponentialAVX512, Bernoulli: noiseBernoulliAVX512,
	Exact:       noiseExactAVX512,
	TorchNormal: noiseTorchNormalAVX2, Twist: noiseTwistAVX2, Temper: noiseTemperAVX2,
	Apply: [Roundings]NoiseApply{
		{noiseAddFloat64AVX512, noiseModulateFloat64AVX512, noiseScaleFloat64AVX512, noiseSignFloat64AVX512},
		{noiseAddFloat32AVX512, noiseModulateFloat32AVX512, noiseScaleFloat32AVX512, noiseSignFloat32AVX512},
		{noiseAddGridAVX512, noiseModulateGridAVX512, noiseScaleGridAVX512, noiseSignGridAVX512},
	},
}

var noiseAVX2 = Noise{
	Lanes:  4,
	Normal: noiseNormalAVX2, Exponential: noiseExponentialAVX2, Bernoulli: noiseBernoulliAVX2, Exact: noiseExactAVX2,
	TorchNormal: noiseTorchNormalAVX2, Twist: noiseTwistAVX2, Temper: noiseTemperAVX2,
	Apply: [Roundings]NoiseApply{
		{noiseAddFloat64AVX2, noiseModulateFloat64AVX2, noiseScaleFloat64AVX2, noiseSignFloat64AVX2},
		{noiseAddFloat32AVX2, noiseModulateFloat32AVX2, noiseScaleFloat32AVX2, noiseSignFloat32AVX2},
		{noiseAddGridAVX2, noiseModulateGridAVX2, noiseScaleGridAVX2, noiseSignGridAVX2},
	},
}

var rowsAVX512 = Rows{
	HardSwish: rowHardSwishFloat32AVX512, Sums: rowSumsAVX512, nearGELU: 4,
	Line: [Formats]func(*float32, *float32, int, *[5][8]float64, *uint8) uint64{
		rowLineFloat32AVX512, rowLineFloat16AVX512, rowLineBFloat16AVX512,
	},
	ReLU: rowReLUAVX2, Gather: rowGatherAVX2, Finite: rowFiniteAVX2, Greatest: rowGreatestAVX2, Cut: rowCutAVX2,
	Act: [2]RowActs{
		{rowGELUFloat32AVX512, rowGELUTanhFloat32AVX512, rowSiLUFloat32AVX512, rowTanhFloat32AVX512, rowSigmoidFloat32AVX512},
		{rowGELUGridAVX512, rowGELUTanhGridAVX512, rowSiLUGridAVX512, rowTanhGridAVX512, rowSigmoidGridAVX512},
	},
	Apply: [2]RowApply{
		{Add: rowAddFloat32AVX2, Noise: rowNoiseFloat32AVX2, Modulate: rowModulateFloat32AVX2,
			Scale: rowScaleFloat32AVX2, Shift: rowShiftFloat32AVX2, Mul: rowMulFloat32AVX2, Divide: rowDivideFloat32AVX2,
			Most: rowMostFloat32AVX2, Least: rowLeastFloat32AVX2, Leak: rowLeakFloat32AVX2},
		{rowAddGridAVX512, rowNoiseGridAVX512, rowModulateGridAVX512, rowScaleGridAVX512, rowShiftGridAVX512,
			rowRoundGridAVX512, rowMulGridAVX512,
			rowDivideGridAVX512, rowMostGridAVX512, rowLeastGridAVX512, rowLeakGridAVX512},
	},
}

var rowsAVX2 = Rows{
	HardSwish: rowHardSwishFloat32AVX2, Sums: rowSumsAVX2, nearGELU: 2,
	Line: [Formats]func(*float32, *float32, int, *[5][8]float64, *uint8) uint64{
		rowLineFloat32AVX2, rowLineFloat16AVX2, rowLineBFloat16AVX2,
	},
	ReLU: rowReLUAVX2, Gather: rowGatherAVX2, Finite: rowFiniteAVX2, Greatest: rowGreatestAVX2, Cut: rowCutAVX2,
	Act: [2]RowActs{
		{rowGELUFloat32AVX2, rowGELUTanhFloat32AVX2, rowSiLUFloat32AVX2, rowTanhFloat32AVX2, rowSigmoidFloat32AVX2},
		{rowGELUGridAVX2, rowGELUTanhGridAVX2, rowSiLUGridAVX2, rowTanhGridAVX2, rowSigmoidGridAVX2},
	},
	Apply: [2]RowApply{
		{Add: rowAddFloat32AVX2, Noise: rowNoiseFloat32AVX2, Modulate: rowModulateFloat32AVX2,
			Scale: rowScaleFloat32AVX2, Shift: rowShiftFloat32AVX2, Mul: rowMulFloat32AVX2, Divide: rowDivideFloat32AVX2,
			Most: rowMostFloat32AVX2, Least: rowLeastFloat32AVX2, Leak: rowLeakFloat32AVX2},
		{rowAddGridAVX2, rowNoiseGridAVX2, rowModulateGridAVX2, rowScaleGridAVX2, rowShiftGridAVX2, rowRoundGridAVX2,
			rowMulGridAVX2, rowDivideGridAVX2, rowMostGridAVX2, rowLeastGridAVX2, rowLeakGridAVX2},
	},
}

var pixelsAVX512 = Pixels{
	Tiles: 13, Outputs: 16,
	Norms: pixelNormsAVX512, Widen: widenAVX512, Multiply: winogradMultiplyAVX512, Taps: multiplyTapsAVX512,
	Words: convWordsAVX512, Exact: exactPixelsAVX512,
	Output: [Formats]func(*float64, *float64, *float64, *float32, int, *uint8){
		pixelOutputFloat32AVX512, pixelOutputFloat16AVX512, pixelOutputBFloat16AVX512},
}

var pixelsAVX2 = Pixels{
	Tiles: 6, Outputs: 8,
	Norms: pixelNormsAVX2, Widen: widenAVX2, Multiply: winogradMultiplyAVX2, Taps: multiplyTapsAVX2,
	Words: convWordsAVX2, Exact: exactPixelsAVX2,
	Output: [Formats]func(*float64, *float64, *float64, *float32, int, *uint8){
		pixelOutputFloat32AVX2, pixelOutputFloat16AVX2, pixelOutputBFloat16AVX2},
}

var (
	channelsAVX512 = Channels{channelsConvolveAVX512}
	channelsAVX2   = Channels{channelsConvolveAVX2}
)

var (
	wholeAVX2 = Whole{Multiply: wholeMultiplyAVX2, MultiplyLine: wholeMultiplyLineAVX2,
		MultiplyBytes: wholeMultiplyBytesAVX2, Widen: wholeWidenAVX2, Floats: wholeFloatsAVX2, Weave: wholeWeaveAVX2,
		Narrow: wholeNarrowAVX2, Integers: wholeIntegersAVX2, Extremes: wholeExtremesAVX2, Quantize: wholeQuantizeAVX2}
	wholeVNNI = Whole{Multiply: wholeMultiplyVNNI, MultiplyLine: wholeMultiplyLineVNNI,
		MultiplyBytes: wholeMultiplyBytesAVX2, Widen: wholeWidenAVX2, Floats: wholeFloatsAVX2, Weave: wholeWeaveAVX2,
		Narrow: wholeNarrowAVX2, Integers: wholeIntegersAVX2, Extremes: wholeExtremesAVX2, Quantize: wholeQuantizeAVX2}
)

var unitsAVX2 = Units{Truncate: unitTruncateAVX2, Floor: unitFloorAVX2}

var measureAVX2 = Measure{
	Sums: measureSumsAVX2, Count: measureCountAVX2, SumsTwo: measureSumsTwoAVX2, CountTwo: measureCountTwoAVX2,
}

var hashSHANI = Hash{Two: hashTwoSHANI}

var bytesAVX2 = Bytes{Float32: bytesFloat32AVX2, Float16: bytesFloat16AVX2, BFloat16: bytesBFloat16AVX2,
	Sort: bytesSortAVX2, Adler: bytesAdlerAVX2}
