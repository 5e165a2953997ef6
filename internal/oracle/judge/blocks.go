package judge

// repeats reports whether the planes of an input are of few numbers, as those of a constant image are. A convolution
// makes such an image again, and kernels that are products of matrices form the pixels of the last block in another
// order: what that changes is next to nothing, unless a norm divides by how much the image varies.
func (q *Question) repeats() bool {
	for _, x := range q.Inputs {
		if len(x.Shape) < 3 {
			continue
		}
		plane := 1
		for _, n := range x.Shape[2:] {
			plane *= n
		}
		for lo := 0; lo+plane <= len(x.Data) && plane > blockOfPixels; lo += plane {
			seen := map[float64]bool{}
			for _, v := range x.Data[lo : lo+plane] {
				seen[v] = true
			}
			if len(seen)*blockOfPixels <= plane {
				return true
			}
		}
	}
	return false
}
