package act

// relu returns max(x, 0). Of the two zeros, which are equal, it returns x, as
// PyTorch does. It is exact.
func relu(x float64) (y, bound float64) {
	if x < 0 {
		return 0, 0
	}
	return x, 0
}

// identity returns x. It is exact.
func identity(x float64) (y, bound float64) { return x, 0 }
