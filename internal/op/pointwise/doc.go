// Package pointwise holds the operations that act on each element by itself, beside
// those of package act: elementary functions, roundings, activations with parameters,
// arithmetic, comparisons and choices. Each is one real function of its stored inputs.
// The result is its exact value, rounded once to the destination's format, and in a
// Float64 destination the float64 evaluation in a fixed order, with the error that is
// stated below. Names are ATen's, ONNX's where ATen has none.
//
// # Functions of one number
//
// U is 2^-53. Where the error of a float64 result is given it is for a normal one; if
// subnormal it is off by 2^-1070 at most.
//
//	name          exact value                                    NaN  -Inf  +Inf   -0   +0   float64
//	exp           e^x                                            NaN    +0  +Inf    1    1   1.1 U
//	exp2          2^x                                            NaN    +0  +Inf    1    1   1.1 U
//	expm1         e^x - 1                                        NaN    -1  +Inf   -0   +0   8 U
//	log           ln x                                           NaN   NaN  +Inf -Inf -Inf   1.1 U
//	log2          ln x / ln 2                                    NaN   NaN  +Inf -Inf -Inf   3.1 U
//	log10         ln x / ln 10                                   NaN   NaN  +Inf -Inf -Inf   3.1 U
//	log1p         ln(1+x); -Inf at -1                            NaN   NaN  +Inf   -0   +0   1.1 U
//	sqrt          the root of x                                  NaN   NaN  +Inf   -0   +0   U
//	rsqrt         1/sqrt(x)                                      NaN   NaN    +0 -Inf +Inf   2.1 U
//	reciprocal    1/x                                            NaN    -0    +0 -Inf +Inf   U
//	square        x^2                                            NaN  +Inf  +Inf   +0   +0   U
//	sin           sin x, x in radians of any size                NaN   NaN   NaN   -0   +0   1.7 U
//	cos           cos x                                          NaN   NaN   NaN    1    1   1.7 U
//	tan           tan x                                          NaN   NaN   NaN   -0   +0   4.5 U
//	atan          the arctangent                                 NaN -pi/2  pi/2   -0   +0   8 U
//	erf           2/sqrt(pi) times the integral of e^(-t^2)      NaN    -1     1   -0   +0   5.3 U
//	erfc          1 - erf x                                      NaN     2    +0    1    1   4.6 U
//	asin          the arcsine                                    NaN   NaN   NaN   -0   +0   10.5 U
//	acos          the arccosine                                  NaN   NaN   NaN pi/2 pi/2   10.5 U
//	sinh          (e^x - e^-x)/2                                 NaN  -Inf  +Inf   -0   +0   10 U
//	cosh          (e^x + e^-x)/2                                 NaN  +Inf  +Inf    1    1   3.2 U
//	asinh         ln(x + sqrt(x^2+1))                            NaN  -Inf  +Inf   -0   +0   6.6 U
//	acosh         ln(x + sqrt(x^2-1))                            NaN   NaN  +Inf  NaN  NaN   4.6 U
//	abs           |x|                                            NaN  +Inf  +Inf   +0   +0   exact
//	neg           -x                                             NaN  +Inf  -Inf   +0   -0   exact
//	sign          -1, 0 or 1                                     NaN    -1     1   +0   +0   exact
//	floor         the greatest whole number up to x              NaN  -Inf  +Inf   -0   +0   exact
//	ceil          the least whole number from x on               NaN  -Inf  +Inf   -0   +0   exact
//	trunc         the whole number next to x towards 0           NaN  -Inf  +Inf   -0   +0   exact
//	round         the nearest whole number, of two the even one  NaN  -Inf  +Inf   -0   +0   exact
//	logical_not   1 for x = 0, 0 for all else                      0     0     0    1    1   exact
//	isnan, isinf  1 for a NaN, for an infinity; 0 for all else   as it says
//	sigmoid       1/(1 + e^-x)                                   NaN    +0     1  1/2  1/2   3.2 U
//	softplus      x for t > threshold, else ln(1 + e^t)/beta,    NaN    +0  +Inf  ln 2/beta  (5.3 + max(0, -t)) U
//	              t = beta x
//	elu           scale x for x > 0, else alpha scale (e^x - 1)  NaN    -c  +Inf   -0   +0   10.1 U; c = alpha scale
//	celu          x for x > 0, else alpha (e^(x/alpha) - 1)      NaN    -c  +Inf   -0   +0   10.1 U; c = alpha
//	selu          elu with alpha 1.6732632423543772848170429916717  NaN  -c  +Inf  -0   +0   10.1 U; c = alpha scale
//	              and scale 1.0507009873554804934193349852946
//	leaky_relu    x for x > 0, else negative_slope x             NaN  -Inf  +Inf   -0   +0   U
//	hardtanh      min_val, if x is less; max_val, if x is more   NaN   min   max   -0   +0   exact
//	clip          the same with min and max; max if max < min    NaN   min   max   -0   +0   exact
//	relu6         the same with 0 and 6                          NaN    +0     6   -0   +0   exact
//	hardshrink    x, but 0 for -lambd <= x <= lambd                NaN  -Inf  +Inf   +0   +0   exact
//	softshrink    x - lambd for x > lambd, x + lambd for         NaN  -Inf  +Inf   -0   +0   U
//	              x < -lambd, else 0
//	hardsigmoid   (x+3)/6, at least 0 and at most 1              NaN    +0     1  1/2  1/2   1.1 U
//	hard_sigmoid  alpha x + beta, at least 0 and at most 1       NaN    +0     1  beta beta  U |alpha x| + U
//	hardswish     x hardsigmoid(x)                               NaN    -0  +Inf   -0   +0   1.1 U
//	softsign      x/(1+|x|)                                      NaN    -1     1   -0   +0   2.1 U
//	swish         x/(1 + e^-t), t = alpha x                        NaN    -0  +Inf   -0   +0   (4.5 + max(0, -t)) U
//	mish          x tanh(ln(1 + e^x))                            NaN    -0  +Inf   -0   +0   8 U
//
// The signs are for positive parameters. With others, elu, leaky_relu and
// hard_sigmoid are IEEE 754's products at zeros and infinities: leaky_relu of -Inf with
// slope 0 is NaN.
//
// A result that underflows keeps the sign of the exact value; hardswish, up to -3, is
// -0. floor, ceil, trunc and round return zeros of x's sign. Outside of a domain the
// result is NaN. hardtanh, clip and relu6 keep NaN, and -0 beside an end of +0.
//
// Parameters are, unless given:
//
//	softplus      beta = 1 (positive), threshold = 20 (an infinity for none: ONNX)
//	elu           alpha = 1, scale = 1 (ONNX's Selu: scale is its gamma)
//	celu          alpha = 1 (positive)
//	leaky_relu    negative_slope = 0.01
//	hardtanh      min_val = -1, max_val = 1 (infinities too)
//	clip          min = -Inf, max = +Inf
//	hardshrink    lambd = 0.5
//	softshrink    lambd = 0.5 (not negative)
//	isinf         detect_negative = 1, detect_positive = 1 (0 for not that one)
//	hard_sigmoid  alpha = 0.2, beta = 0.5 (ONNX's HardSigmoid)
//
// They are the numbers given, rounded to float32 for all destinations but Float64: so
// PyTorch casts the scalars of an operation on float32 and shorter tensors, and ONNX
// stores them. 3, 6 and 1/6 of the hard functions and selu's constants are real
// numbers, as written.
//
// PyTorch differs from this in a few places: its sign(NaN) is 0, and hardswish, softsign
// and mish of infinities are NaN where its formula has 0 times or over infinity.
//
// # Operations on two numbers
//
// Shapes are spread as numpy does, see [Broadcast].
//
//	add sub mul div   IEEE 754, with its special values
//	pow               a^b, with the special cases of IEEE 754's pow: 1 for b = 0 and for
//	                  a = 1 whatever the other is, NaN too; NaN for a < 0 and a b that is
//	                  not whole; zeros and infinities of a's sign for odd b. In float64
//	                  (1.2 + 0.06 |b ln |a||) U
//	atan2             the angle of the point (b, a), with the special cases of IEEE 754's
//	                  atan2; 8 U in float64
//	minimum maximum   of two numbers; NaN if one is NaN; -0 is less than +0
//	fmin fmax         the same, but a number if one is a number
//	prelu             a for a > 0, else a b (IEEE 754's product)
//	fmod              a - b n, n = a/b towards 0; a zero has a's sign
//	remainder         a - b n, n = a/b rounded down: of b's sign; a zero has a's. Beside an
//	                  infinite b of the other sign it is b
//	floor_divide      a/b rounded down; NaN for an infinite a
//	trunc_divide      a/b towards 0
//	eq ne lt le gt ge 1 or 0; all but ne are 0 if one is NaN
//	logical_and, logical_or, logical_xor   1 or 0, of numbers that count as true if not
//	                  0; a NaN does
//
// [Where] chooses between two by a third: not 0 is true, as above.
//
// # How
//
// As in package act: an evaluation in float64 (package elem) with a bound that stands
// beside it, the guard [fp16.Format.Decide], and for what that leaves open the exact
// value (package exact). Results do not depend on the machine or the number of threads.
//
// In use:
//
//	f, err := pointwise.Parse("leaky_relu", map[string]float64{"negative_slope": 0.1})
//	pointwise.Unary(y, x, f)
//	pointwise.Binary(y, x, bias, pointwise.Add)
//
// For package plan alone there are [Lines] and [Singles].
package pointwise
