package judge

import (
	"math"

	"github.com/refrun/refrun/fp16"
)

// The numbers that decide what a verdict says, and which fault is named. Each has its class: derived, from what is
// known of the arithmetic or of the statistic; simulated, measured on right kernels; set, by judgement, on tuning seeds
// alone; and work, which bounds effort and not what is right. A test counts them, so that their number does not grow
// unseen. What the bound of one operation consists of stands beside its derivation, in bound*.go, expand*.go, resize.go
// and function.go.

// The law of right devices, see law.go.
const (
	// set: the chance that a right device fails a check: one in a million.
	falseAlarm = 1e-6
	// set: as how many simulated devices it counts that errors are independent and as large as expected, as theory has it.
	asTheory = 8
	// set: as how many numbers it counts that theory knows the level of errors: to sqrt(2/64), a fifth.
	numbersOfTheory = 64
	// derived: the chance that an error of a sum whose partial sums walk is beyond r deviations is e^(-1.11 r), see
	// largestOf.
	walkTail = 1.11
	// derived: the variance of an extreme in squares of its scale (E. Gumbel, 1935).
	extremeVariance = math.Pi * math.Pi / 6
	// work: the terms of a continued fraction.
	mostTerms = 1e6
	// derived: what changes float64 numbers near 1 no more.
	lastBits = 0x1p-50
	// work: how often an interval of exponents is halved, from 50 to a thousandth.
	mostHalved = 16
)

// How far errors of right kernels may be above what is expected.
const (
	// set: how many times what is expected errors may be: that is the mean of a few simulated kernels, in which errors
	// of one cause, such as a row's sum, are drawn a few times only.
	usualSlack = 1.6
	// derived: the same of products, whose partial sums are one walk for a column, see slack.
	productSlack = 8
	// derived: the same of lines that are running sums, see slack.
	runningSlack = 16
	// set: how many deviations a number is moved at most to find roundings that go the other way: of a million one goes
	// farther.
	mostFlip = 5
	// set: how many places of float32 the effect of one inner rounding has at least that is not one of the float32
	// roundings around it.
	leastFlip = 8
	// set: what part of a bound the deviation of a function's error is: errors that are anywhere in it have 0.58.
	typical = 0.4
	// derived: the variance of what storing rounds, in squares of a place.
	storing = 1. / 12
	// derived: the half numbers of 16 bytes, which processors read at once.
	vector = 8
	// derived: the pixels that a kernel forms together: numbers of AVX-512, or a row of a matrix unit's tile.
	blockOfPixels = 16
)

// The chance variance of a sum's error, see wandering.
const (
	// derived: the part of it that does not vary.
	steadyPart = .4
	// derived: the part that varies with the walk of the partial sums.
	wanderingPart = .6
)

// What errors along a fault are.
const (
	// set: how far from 1 the amount of a fault may be.
	nearAmount = .25
	// set: or how many deviations of the amount.
	amountFar = 4
	// set: the squared errors that a fault may leave, each over what is expected.
	leftEach = 4
	// set: or the share of all squared errors.
	leftShare = .2
	// set: or of those of steps that are wrong by themselves, in whose faults some roundings go the other way.
	leftOfSteps = .02
	// set: how much less one fault must leave than another, as a share, to be the one.
	leftLess = .01
	// set: how far off 1 the amount of a cause may be at the first wrong evaluation.
	mostOffCause = .5
	// derived: by how much one gain is above another that is the same but for its last digits.
	lastDigits = 1e-9
)

// What a cause has to explain.
const (
	// set: the square of an error that is not finite.
	missing = 1e12
	// set: how much farther than any other an element is that no right kernel returns.
	impossible = 1e30
	// set: the deviations within which a number is as a fault has it.
	reachFar = 3
	// set: how much one element says at most, in bits.
	mostBits = 20
	// derived: how much all say at least: of some fifty faults that are tried one in a hundred outputs would fit one by
	// chance.
	leastBits = 12
	// set: the mean square error of sums in a half format, over that of those simulated, below which they were kept wider.
	leastNarrow = 1. / 4
	// set: how many faults may be the cause before none of them is named.
	mostAlike = 2
	// set: how far in proportion a constant factor may be from what fits best.
	nearFactor = 4e-3
	// set: a constant factor is between this and one over it.
	mostFactor = 1e9
	// derived: how near a factor is to a fraction that it is, in float64.
	sameFraction = 1e-12
	// set: of how many numbers a constant output, a factor or other places are told.
	fewNumbers = 4
	// set: the greatest denominator of a factor that is a fraction, of one over it, and of any.
	mostUnder, mostParts = 1024, 16
	// set: how many digits a factor has at most that people write.
	mostDigits = 5
	// set: how many times the squared errors of bfloat16, the coarsest arithmetic there is, are logic and no precision.
	Coarsest = 16
	// set: the greatest size of a number that is only added to keep another from 0.
	mostSmall = 1e-3
	// set: beyond twice a group, how many numbers of padding may be counted.
	morePadding = 16
	// derived: the fourth moment of a normal number over its squared variance.
	normalFourth = 3
	// set: the root of a group's mean square over its variance up to which a variance in one pass is right. The loss is
	// in proportion to its square, and here a hundred times that of two passes.
	mostOnePass = 10
	// set: how many deviations a variance in one pass may be off by.
	mostUsualOff = 8
	// derived: how far off a root of few bits is: the coarsest has 7.
	mostOff = 0x1p-6
	// set: the least share of factors' mean square that is their variance, where they are not all alike.
	leastVaried = .1
	// derived: numbers of a group for each factor, where factors are estimated from them.
	perFactor = 4
)

// set: the numbers that norms of frameworks have by default, and others that people write.
var usualEps = []float64{1e-5, 1e-6, 1e-3, 1e-8, 1e-12, 1e-4, 1e-2, 1e-7, 1e-1, 0x1p-23}

// The places in which errors are looked for, beside rows and axes.
var (
	// set: squares of the last two axes.
	tileSizes = []int{8, 16, 32, 64, 128}
	// set: parts of an output of one axis.
	partSizes = []int{16, 64, 256, 1024}
)

// derived: torch.testing.assert_close's defaults, relative and absolute.
var closeness = map[fp16.Format][2]float64{
	fp16.Float16: {1e-3, 1e-5}, fp16.BFloat16: {1.6e-2, 1e-5}, fp16.Float32: {1.3e-6, 1e-5}, fp16.Float64: {1e-7, 1e-7},
}

// derived: the eps of ATen's rms_norm where none is given, the distance of numbers from 1 on, in float32 and float64.
const defaultEps, doubleEps = 0x1p-23, 0x1p-52

// derived: the unit roundoff of float64 in that of float32, see double.go.
const doubleUnit = 0x1p-29

// derived: the least number that is not subnormal in float64.
const leastDouble = 0x1p-1022

// How contracts are compared.
const (
	// set: how much nearer a contract must be to be another one than by chance.
	plainly = .9
	// derived: or how many deviations of the mean difference: of ten thousand contracts one is nearer so by chance.
	byChance = 4
	// set: how many times as far as the nearest a contract may be that is about as near.
	Nearly = 1.5
	// set: and have so many single places more: the flips of right kernels, of which there may be none.
	fewPlaces = 16
)

// How many kernels are simulated.
const (
	// set: the elements up to which mostKernels are simulated, manyKernels, and someKernels; of more, leastKernels.
	smallOutput, middleOutput, largeOutput = 1 << 12, 1 << 16, 1 << 19
	// set: see smallOutput.
	mostKernels, manyKernels, someKernels, leastKernels = 32, 8, 4, 2
	// set: where elements share an error, as those of a row do whose mean is off, so many kernels are simulated at
	// least, and each is compared with what is expected without it: so much do right kernels differ.
	leastCompared = 4
	// set: the kernels that are simulated of each of many evaluations.
	thinKernels = 4
	// set: what share of a limit an evaluation between others that were simulated may reach: one that reaches more is
	// simulated, too.
	mostBetween = .5
	// set: and of one that is less than mostDoubt times above a limit: a few say little of a tail.
	doubtKernels = 24
	// work: see doubtKernels.
	mostDoubt = 30
)

// What bounds effort.
const (
	// work: the flips that are tried one by one: of more, simulated kernels have their part.
	mostFlips = 64
	// work: the evaluations before one in which a cause was found of which it is asked whether they have it.
	mostDated = 64
	// work: the most parts in which the terms of a product are looked for.
	mostSplit = 16
	// work: contracts that are tried.
	mostTried = 6
	// work: of how many steps all pairs are candidates.
	pairedNames = 6
	// work: patterns from which the search goes on where none of the contracts before it passes.
	mostStarts = 3
	// work: the steps before one that are looked at.
	mostBefore = 4
	// work: the faults that are judged, those that leave the least first.
	mostSuspects = 5
	// work: the graphs of which a fault, and a product in parts, is looked for in each node.
	mostNodes = 8
	// work: the nodes of a graph in each of which, alone, a fault is looked for to name what is wrong.
	mostNamed = 48
	// work: the steps that are evaluated to ask of each step whether it alone is rounded. Of a long graph, all of them
	// would take the square of its length.
	mostAlone = 1 << 18
	// work: the nodes of a graph that count as one, where kernels are simulated.
	fewNodes = 64
	// work: the places along an axis of which it is asked whether they are moved, and the numbers of each that are
	// compared.
	mostPlacesMoved, mostLooked = 1024, 48
	// work: the regions of one way.
	mostRegions = 1 << 16
	// work: the products that are added one by one.
	mostNarrow = 1 << 24
	// work: the products of which an order of k is told, and the results, spread over the output.
	mostOrdered, leastSums, mostSums = 1 << 17, 16, 256
	// work: the numbers that are kept between contracts: 32 MB, as much as judging a block of scores takes.
	mostKept = 1 << 22
	// work: the numbers of all steps that are kept between faults: 256 MB.
	mostRemembered = 1 << 25
	// work: how many times more or less than the output a result may change by a fault, in proportion.
	far = 100
	// work: the numbers of steps with faults that are made to name one.
	mostRewritten = 1 << 29
	// work: the numbers of a matrix of which something is made at once.
	mostPanel = 1 << 16
	// work: the least numbers that are worth keeping.
	leastSpare = 1 << 10
	// work: the greatest power that is multiplied out.
	mostFactors = 64
	// work: the numbers of the largest step of a question of which a sample is judged where one is asked for: of products
	// 2048 x 2048 x 2048 is whole, 4096 x 4096 x 4096 is not.
	mostWhole = 1 << 26
	// work: a sample has a row of each tile of so many, and the first and the last of each of so many.
	sampleTile, sampleCorners = 16, 64
	// work: numbers of the largest step of the piece in which contracts and faults are looked for; of steps that are
	// products, which cost more; and of the other pieces.
	mostSearched, mostProduct, mostPiece = 1 << 20, 1 << 18, 1 << 19
	// work: the terms, and an attention's columns, of a product that counts as one number of a step.
	fewTerms, fewColumns = 256, 128
	// work: the numbers of a piece where contracts are only compared, and of an attention, whose scores are not what is
	// compared.
	mostRanked, mostScores = 1 << 15, 1 << 18
	// work: the numbers of a step that is evaluated at once, and an attention's scores, so that they stay in a processor's
	// caches: several steps, each of several kernels, are there at a time.
	mostBlock, mostScored = 1 << 17, 1 << 16
)
