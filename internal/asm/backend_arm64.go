//go:build !purego

package asm

// backends are the instruction sets that kernels exist for, best first. Every
// CPU that Go's arm64 runs on has NEON.
var backends = []backend{
	{name: "neon", act: &actNEON, winograd: &winogradNEON, fast: &fastNEON, fast4: &fast4NEON, fast5: &fast5NEON,
		fastTaps: &fastTapsOf4, fastRows: &fastRowsNEON, singles: &singlesNEON, direct: &directNEON, norm: &normNEON},
	{name: "purego"},
}

var winogradNEON = Winograd{
	Tiles: 6, Outputs: 8,
	Input: winogradInputNEON, Multiply: winogradMultiplyNEON, Dot: winogradDotNEON, Pack: packLineNEON,
	Unpack: unpackLineNEON,
	Output: [Formats]func(*float64, int, float64, *float64, *float32, int, *uint8, *float64){
		winogradOutputFloat32NEON, winogradOutputFloat16NEON, winogradOutputBFloat16NEON},
}

var (
	fastNEON  = Fast{Tiles: 6, Outputs: 16, Input: fastInputNEON, Multiply: fastMultiplyNEON, Output: fastOutputNEON}
	fast4NEON = Fast{
		Tiles: 6, Outputs: 16, Input: fast4x4InputNEON, Multiply: fastMultiplyNEON, Output: fast4x4OutputNEON,
	}
	fast5NEON = Fast{
		Tiles: 6, Outputs: 16, Input: fast5x5InputNEON, Multiply: fastMultiplyNEON, Output: fast5x5OutputNEON,
	}
	fastTapsOf4 = FastTaps{Tiles: 6, Outputs: 16, Convolve: fastTapsOf8NEON, Convolve4: fastTapsOf4NEON}
)

var fastRowsNEON = FastRows{GELU: rowFastGELUNEON, Line: rowFastLineNEON, LineGELU: rowFastLineGELUNEON}

var directNEON = Direct{
	Outputs: 8, Pixels: 6, Add: directAddNEON, Widen: directWidenNEON,
	Round: [Formats]func(*float64, *float64, *float64, *float64, int, *uint8) uint64{
		directRoundFloat32NEON, directRoundFloat16NEON, directRoundBFloat16NEON,
	}, AddSquares: addSquaresNEON, SumSquares: sumSquaresNEON,
	Convolve: [Formats + 1]func(*float64, *int, int, *float64, *float64, *float64, *float64, *uint8){
		directFloat32NEON, directFloat16NEON, directBFloat16NEON, directFloat64NEON},
}

var normNEON = Norm{
	Top: normTopNEON, Sums: normSumsNEON,
	Apply: [Formats]func(*float64, *float64, int, *[6]float64, *uint8) uint64{
		normApplyFloat32NEON, normApplyFloat16NEON, normApplyBFloat16NEON},
}

var singlesNEON = Singles{Add: singleAddNEON, Mul: singleMulNEON, Scale: singleScaleNEON, Shift: singleShiftNEON,
	Lay: singleLayNEON, Blocks: singleBlocksNEON, Greatest: singleGreatestNEON, Exp: singleExpNEON,
	Sums: singleSumsNEON, Squares: singleSquaresNEON, Line: singleLineNEON}

var actNEON = Act{
	Identity: actIdentityNEON, ReLU: actReLUNEON,
	GELU: actGELUNEON, GELUTanh: actGELUTanhNEON, SiLU: actSiLUNEON, Sigmoid: actSigmoidNEON, Tanh: actTanhNEON,
	Erf: actErfNEON, ExpBelow: expBelowNEON,
}
