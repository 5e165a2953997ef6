package exact

import (
	"math"
	"math/big"
	"slices"
)

// Weighted returns (e^z_1 v_1 + ... + e^z_n v_n) / (e^z_1 + ... + e^z_n), rounded to odd, for
// finite float32 numbers v and any numbers z, n 1 or more.
//
// Let numbers with equal z be a group. If the mean of the v of every group is t, so is the
// value. Otherwise it is no rational number t: sum of (v_i - t) e^z_i would be 0, and is so
// only if every group's sum is (Lindemann, Weierstrass). So ziv ends.
func Weighted(z []*big.Float, v []float64) float64 {
	order := make([]int, len(z))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return z[j].Cmp(z[i]) })
	var groups []group
	for i, at := range order {
		if i == 0 || z[at].Cmp(z[order[i-1]]) != 0 {
			groups = append(groups, group{z: z[at]})
		}
		g := &groups[len(groups)-1]
		g.n++
		g.v.Add(v[at])
	}
	for i := range groups {
		g := &groups[i]
		m, exp := g.v.Int()
		g.sum = new(big.Float).SetPrec(uint(max(64, m.BitLen()))).SetInt(m)
		g.sum.SetMantExp(g.sum, exp)
	}
	near := 1
	for ; near < len(groups); near++ {
		if beyond(groups[0].z, groups[near].z, weightedFar) {
			break
		}
	}
	mean := groups[0].mean()
	other := slices.IndexFunc(groups, func(g group) bool { return g.mean().Cmp(mean) != 0 })
	switch {
	case other < 0:
		return Ratio(mean)
	case beyond(groups[0].z, groups[other].z, weightedAside): // what differs is too far below to show
		return aside(mean, differing(groups, other, mean))
	}
	return ziv(func(w uint) *big.Float {
		below := combine(groups[:near], w, func(g *group) *big.Float { return newBig(64).SetInt64(g.n) })
		above := combine(groups[:near], w, func(g *group) *big.Float { return g.sum })
		return above.Quo(above, below)
	})
}

// weightedAside is how far below the greatest z others decide only on which side of a mean t of
// float32 numbers the value lies: by less than n 2^129 e^-1024 < n 2^-1348, where a float64
// number near t that is not t is at least 2^-203/n^2 away. Nearer ones show before ziv's last
// precision. weightedFar is how far below others are looked at then: beyond it they are less
// than what that precision has.
const (
	weightedAside = 1 << 10
	weightedFar   = 1 << 14
)

// beyond reports whether b is less than a by more than that.
func beyond(a, b *big.Float, far float64) bool {
	return new(big.Float).Sub(a, b).Cmp(big.NewFloat(far)) > 0
}

// group are the v of one z.
type group struct {
	z   *big.Float
	n   int64
	v   Sum
	sum *big.Float
}

func (g *group) mean() *big.Rat {
	r, _ := g.sum.Rat(nil)
	if r == nil {
		r = new(big.Rat)
	}
	return r.Quo(r, new(big.Rat).SetInt64(g.n))
}

// combine returns the sum of e^(z - z_1) times a factor over groups, which is not 0, to w
// bits. What cancels is added to the bits.
func combine(groups []group, w uint, factor func(g *group) *big.Float) *big.Float {
	for more := uint(16); ; more *= 2 {
		most, sum := math.MinInt, newBig(w+more)
		for i := range groups {
			g := &groups[i]
			t := bigExp(newBig(w+more).Sub(g.z, groups[0].z), w+more)
			if t.Mul(t, factor(g)); t.Sign() != 0 {
				most = max(most, t.MantExp(nil))
			}
			sum.Add(sum, t)
		}
		if sum.Sign() != 0 && most-sum.MantExp(nil) <= int(more) {
			return newBig(w).Set(sum)
		}
	}
}

// differing returns the sign of the sum of (v - t) e^z over groups from the first on, of which
// that one's is not 0.
func differing(groups []group, first int, t *big.Rat) int {
	rest := slices.Clone(groups[first:])
	for i := range rest {
		d := rest[i].mean()
		d.Mul(d.Sub(d, t), new(big.Rat).SetInt64(rest[i].n))
		rest[i].sum = newBig(8192).SetRat(d)
	}
	near := 1
	for near < len(rest) && !beyond(rest[0].z, rest[near].z, weightedFar) {
		near++
	}
	return combine(rest[:near], 64, func(g *group) *big.Float { return g.sum }).Sign()
}

// aside returns what is a little above t, or below it, rounded to odd.
func aside(t *big.Rat, dir int) float64 {
	if t.Sign() == 0 {
		return math.Copysign(math.SmallestNonzeroFloat64, float64(dir))
	}
	y := Ratio(t)
	if exact := new(big.Rat).SetFloat64(y); exact.Cmp(t) != 0 {
		return y
	}
	if dir != t.Sign() {
		y = math.Float64frombits(math.Float64bits(y) - 1)
	}
	return math.Float64frombits(math.Float64bits(y) | 1)
}
