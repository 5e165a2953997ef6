package rollout

import (
	"slices"

	"github.com/refrun/refrun/fp16"
	"github.com/refrun/refrun/internal/asm"
)

// appendAs is f.Append, by a kernel where there is one.
func appendAs(f fp16.Format, b []byte, x []float64) []byte {
	k := asm.BytesKernels()
	if k == nil || f != fp16.Float32 && !f.Half() {
		return f.Append(b, x)
	}
	at, size := len(b), f.Bytes()
	b = slices.Grow(b, size*len(x))
	for len(x) >= 8 {
		n := min(len(x), together) &^ 7
		to := b[at : at+size*n]
		done := n
		switch f {
		case fp16.Float32:
			k.Float32(&to[0], &x[0], n)
		case fp16.Float16:
			done = k.Float16(&to[0], &x[0], n)
		case fp16.BFloat16:
			done = k.BFloat16(&to[0], &x[0], n)
		}
		if done < n { // what the kernel leaves is seldom alone
			more := min(256, n-done)
			f.Append(b[:at+size*done], x[done:done+more])
			done += more
		}
		x, at = x[done:], at+size*done
	}
	return f.Append(b[:at], x)
}
