package judge

import "slices"

// beside looks for another contract where a few elements alone are off: so few make no contract plainly nearer. It goes
// from the trial's contract, and from the same roundings in the plain form, by single changes as long as one of them
// brings the output nearer, and returns the better trial.
func (s *finder) beside(best *trial) (*trial, error) {
	if best.passes() || best.violations > fewPlaces || s.q.built.id != "" {
		return best, nil
	}
	plain := Form{written: s.q.Written, Operands: s.q.Operands}
	names := s.expand(plain).names()
	same := slices.DeleteFunc(slices.Clone(best.Round), func(n string) bool { return !slices.Contains(names, n) })
	var all []Contract
	for _, c := range []Contract{best.Contract, {plain, same}} {
		least, err := s.distance(c)
		for nearer := true; nearer && err == nil; {
			nearer = false
			for _, by := range s.single(s.expand(c.Form)) {
				to := s.change(c, by)
				var off Distance
				if off, err = s.distance(to); err != nil {
					return nil, err
				}
				if off.Mean < least.Mean {
					c, least, nearer = to, off, true
					break
				}
			}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return s.q.best(s.types, all, best)
}
