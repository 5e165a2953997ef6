// Package initial makes initial conditions: the first states of rollouts, by the names
// that Spinlock gives them and with the meaning that those have.
//
//	{"type": "gaussian_random_field", "length_scale": 0.1, "variance": 1}
//
// A [Condition] is such an object, read by [Parse]; [Names] lists the types. A state is
// [C,N,N], N pixels on each side of a periodic square. Lengths named length_scale or
// scales are fractions of the side; those in pixels say so.
//
// All random numbers are those of the counter stream (package noise) of the
// condition's seed, all arithmetic is float64 of internal/exact/elem in a written order, and
// every number is rounded once, to float32. So a state is the same bits everywhere.
//
// # Random fields
//
// A field of a spectrum p(k), k = 2 pi times the cycles over the side, is
//
//	sqrt(2 v / sum p) Re sum over k of Z(k) sqrt(p(k)) e^(i k r)
//
// with complex normals Z of unit variance: its variance is v at every pixel, in the mean
// over seeds. A Gaussian random field has p = e^(-k^2 l^2/2), so that its correlation falls
// as e^(-r^2/(2 l^2)). Spinlock takes k in cycles a pixel instead, and divides
// by the number of pixels once too often: what it makes is white noise of standard
// deviation 0.7/N, and that is "spinlock_grf" here.
//
// In use:
//
//	c, err := initial.Parse("spec.json", "initial", []byte(`{"type": "localized", "num_blobs": 3}`))
//	x := make([]float64, 3*64*64)
//	err = c.Fill(seed, 3, 64, x)
package initial
