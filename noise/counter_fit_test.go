package noise

import (
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/refrun/refrun/internal/ground/par"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Goodness of fit of the counter stream. The draws are fixed, so that the test
// passes or fails for good; with
//
//	go test -run CounterFit -v ./noise -noise.draws=100000000
//
// it looks at more of them, and prints a probability for every statistic.
var fitDraws = flag.Int("noise.draws", 2_000_000, "draws of the goodness-of-fit test of the counter stream")

// fitLimit is how improbable a statistic may be: with some fifty of them, a
// sound generator fails one time in some hundred choices of the draws.
const fitLimit = 1e-4

const (
	fitBins   = 1 << 12
	fitLength = 1 << 13 // numbers per realization and site
	fitPieces = 32      // of the work, merged in order
)

// fitLags are the distances of serial correlation: within a block of Philox,
// to the next blocks, and far.
var fitLags = [...]int{1, 2, 3, 4, 5, 8, 64, 4096}

// fitNeighbours are the coordinates next to which independence is looked for.
var fitNeighbours = [...]struct {
	name string
	move func(c Counter, step, realization, site int) (Counter, int, int, int)
}{
	{"realization", func(c Counter, t, r, s int) (Counter, int, int, int) { return c, t, r + 1, s }},
	{"step", func(c Counter, t, r, s int) (Counter, int, int, int) { return c, t + 1, r, s }},
	{"site", func(c Counter, t, r, s int) (Counter, int, int, int) { return c, t, r, s + 1 }},
	{"operator", func(c Counter, t, r, s int) (Counter, int, int, int) { c.Operator++; return c, t, r, s }},
	{"seed", func(c Counter, t, r, s int) (Counter, int, int, int) { c.Seed++; return c, t, r, s }},
	{"seed, upper half", func(c Counter, t, r, s int) (Counter, int, int, int) { c.Seed += 1 << 32; return c, t, r, s }},
}

// fitNumbers draws fitLength numbers of one realization and site.
func fitNumbers(t testing.TB, dst []float64, c Counter, step, realization, site int, kind Kind, p float64) {
	d, err := c.At(step, realization, realization+1)
	if err == nil {
		d.(*counterDraws).site = site
		n := len(dst)
		if kind == ComplexNormal {
			n /= 2
		}
		err = d.Draw(kind, p, []int{1, n}, dst)
	}
	if err != nil {
		t.Error(err)
	}
}

// fitSums are what is counted of normal draws.
type fitSums struct {
	n         float64
	power     [4]float64                     // sums of z^1 to z^4
	lag, lag2 [len(fitLags)]float64          // of z z', and of (z^2-1)(z'^2-1)
	lagged    [len(fitLags)]float64          // number of terms
	near      [len(fitNeighbours)]float64    // the same for neighbours
	near2     [len(fitNeighbours)]float64    //
	bins      [fitBins]float64               // of the distribution function at z
	pairs     [4][4]float64                  // quarters of z against those of the next
	expBins   [fitBins]float64               // of 1 - e^-E
	angleBins [fitBins]float64               // of a complex number's angle
	sizeBins  [fitBins]float64               // of 1 - e^-|z|^2
	complexN  float64                        //
	success   [len(fitProbabilities)]float64 // of Bernoulli
	nearCoin  [len(fitProbabilities)]float64 // sums of (b-p)(b'-p) of two realizations
}

var fitProbabilities = [...]float64{0.5, 0.3, 1. / 1024}

func (s *fitSums) merge(o *fitSums) {
	s.n += o.n
	s.complexN += o.complexN
	for _, v := range [][2][]float64{
		{s.power[:], o.power[:]}, {s.lag[:], o.lag[:]}, {s.lag2[:], o.lag2[:]}, {s.lagged[:], o.lagged[:]},
		{s.near[:], o.near[:]}, {s.near2[:], o.near2[:]}, {s.bins[:], o.bins[:]}, {s.expBins[:], o.expBins[:]},
		{s.angleBins[:], o.angleBins[:]}, {s.sizeBins[:], o.sizeBins[:]}, {s.success[:], o.success[:]},
		{s.nearCoin[:], o.nearCoin[:]},
	} {
		for i, x := range v[1] {
			v[0][i] += x
		}
	}
	for i := range s.pairs {
		for j := range s.pairs[i] {
			s.pairs[i][j] += o.pairs[i][j]
		}
	}
}

func fitBin(u float64) int { return min(int(u*fitBins), fitBins-1) }

// add counts block number i of the draws.
func (s *fitSums) add(t testing.TB, i int, z, y []float64) {
	c := Counter{Seed: 0x5eed, Operator: 7}
	step, r, site := i/64, i%64, i%5
	fitNumbers(t, z, c, step, r, site, Normal, 0)
	s.n += fitLength
	quarter := 0
	for i, v := range z {
		v2 := v * v
		s.power[0] += v
		s.power[1] += v2
		s.power[2] += v2 * v
		s.power[3] += v2 * v2
		u := 0.5 * math.Erfc(-v*math.Sqrt2/2)
		s.bins[fitBin(u)]++
		q := min(int(4*u), 3)
		if i%2 != 0 {
			s.pairs[quarter][q]++
		}
		quarter = q
	}
	for j, lag := range fitLags {
		for i, v := range z[lag:] {
			s.lag[j] += v * z[i]
			s.lag2[j] += (v*v - 1) * (z[i]*z[i] - 1)
		}
		s.lagged[j] += float64(len(z) - lag)
	}
	for j, near := range fitNeighbours {
		nc, nt, nr, ns := near.move(c, step, r, site)
		fitNumbers(t, y, nc, nt, nr, ns, Normal, 0)
		for i, v := range z {
			s.near[j] += v * y[i]
			s.near2[j] += (v*v - 1) * (y[i]*y[i] - 1)
		}
	}
	site += 10
	fitNumbers(t, y, c, step, r, site, Exponential, 0)
	for _, v := range y {
		s.expBins[fitBin(-math.Expm1(-v))]++
	}
	fitNumbers(t, y, c, step, r, site+10, ComplexNormal, 0)
	for i := 0; i < len(y); i += 2 {
		s.sizeBins[fitBin(-math.Expm1(-y[i]*y[i]-y[i+1]*y[i+1]))]++
		s.angleBins[fitBin(math.Atan2(y[i+1], y[i])/(2*math.Pi)+0.5)]++
		s.complexN++
	}
	for j, p := range fitProbabilities {
		fitNumbers(t, z, c, step, r, 40+j, Bernoulli, p)
		fitNumbers(t, y, c, step, r+1, 40+j, Bernoulli, p)
		for i, v := range z {
			s.success[j] += v
			s.nearCoin[j] += (v - p) * (y[i] - p)
		}
	}
}

func TestCounterFit(t *testing.T) {
	blocks := max(*fitDraws/fitLength, fitPieces)
	var pieces [fitPieces]fitSums
	par.For(fitPieces, func(i int) {
		z, y := make([]float64, fitLength), make([]float64, fitLength)
		for b := blocks * i / fitPieces; b < blocks*(i+1)/fitPieces; b++ {
			pieces[i].add(t, b, z, y)
		}
	})
	s := new(fitSums)
	for i := range pieces {
		s.merge(&pieces[i])
	}
	t.Logf("%.0f normal draws", s.n)

	tests := 0
	judge := func(name string, value, p float64) {
		t.Logf("%-57s %10.3f  p = %.4f", name, value, p)
		if !(p > fitLimit) {
			t.Errorf("%s: %v has probability %.2g", name, value, p)
		}
		tests++
	}
	// deviation judges a sum of n terms of mean 0 and the given variance.
	deviation := func(name string, sum, n, variance float64) {
		z := sum / math.Sqrt(n*variance)
		judge(name, z, 2*distuv.UnitNormal.Survival(math.Abs(z)))
	}
	// even judges counts that should be equally likely: by chi-square, where
	// too good is as bad, and many of them by Kolmogorov and Smirnov's distance,
	// which is a little smaller at the bins' ends than it would be at every draw.
	even := func(name string, bins []float64) {
		n := 0.0
		for _, c := range bins {
			n += c
		}
		expected := make([]float64, len(bins))
		for i := range expected {
			expected[i] = n / float64(len(bins))
		}
		chi := stat.ChiSquare(bins, expected)
		p := distuv.ChiSquared{K: float64(len(bins) - 1)}.Survival(chi)
		judge(name+": chi-square per bin", chi/float64(len(bins)-1), 2*min(p, 1-p))
		if len(bins) < fitBins {
			return
		}
		sum, distance := 0.0, 0.0
		for i, c := range bins {
			sum += c
			distance = max(distance, math.Abs(sum/n-float64(i+1)/float64(len(bins))))
		}
		root := math.Sqrt(n)
		judge(name+": Kolmogorov-Smirnov sqrt(n) D", root*distance, kolmogorov((root+0.12+0.11/root)*distance))
	}

	// Of N(0,1), z^k has the moments 0, 1, 0, 3 and variances 1, 2, 15, 96.
	deviation("mean", s.power[0], s.n, 1)
	deviation("second moment", s.power[1]-s.n, s.n, 2)
	deviation("third moment", s.power[2], s.n, 15)
	deviation("fourth moment", s.power[3]-3*s.n, s.n, 96)
	even("normal", s.bins[:])
	even("exponential", s.expBins[:])
	even("complex, size", s.sizeBins[:])
	even("complex, angle", s.angleBins[:])
	var pairs []float64
	for _, row := range s.pairs {
		pairs = append(pairs, row[:]...)
	}
	even("cosine and sine of a pair, quarters", pairs)
	for j, lag := range fitLags {
		deviation(fmt.Sprintf("serial correlation, lag %d", lag), s.lag[j], s.lagged[j], 1)
		deviation(fmt.Sprintf("serial correlation of squares, lag %d", lag), s.lag2[j], s.lagged[j], 4)
	}
	for j, near := range fitNeighbours {
		deviation("correlation with the next "+near.name, s.near[j], s.n, 1)
		deviation("correlation of squares with the next "+near.name, s.near2[j], s.n, 4)
	}
	for j, p := range fitProbabilities {
		deviation(fmt.Sprintf("Bernoulli %.4g", p), s.success[j]-p*s.n, s.n, p*(1-p))
		deviation(fmt.Sprintf("Bernoulli %.4g, correlation with the next realization", p), s.nearCoin[j], s.n,
			p*p*(1-p)*(1-p))
	}
	if want := 4 + 4*2 + 1 + 2*len(fitLags) + 2*len(fitNeighbours) + 2*len(fitProbabilities); tests != want {
		t.Errorf("%d statistics, want %d", tests, want)
	}
}

// kolmogorov returns the probability that the limit of sqrt(n) D exceeds x.
func kolmogorov(x float64) float64 {
	if x < 0.2 {
		return 1 // within 10^-12
	}
	sum, sign := 0.0, 1.0
	for k := 1.0; k < 100; k++ {
		sum += sign * math.Exp(-2*k*k*x*x)
		sign = -sign
	}
	return 2 * sum
}
