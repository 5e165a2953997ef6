package noise

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/refrun/refrun/internal/exact/elem"
	"github.com/refrun/refrun/internal/exact/single"
	"github.com/refrun/refrun/internal/ground/par"
)

// TorchCUDA is the random stream of PyTorch's CUDA generator for float32
// tensors (and narrower ones, whose numbers PyTorch rounds from the same
// float32 numbers) that are contiguous in NCHW order.
//
// Words, uniforms and Bernoulli draws are PyTorch's bit for bit. Logarithm, sine
// and cosine are not: PyTorch takes them from CUDA's fast approximations, which
// have no published definition. Here they are the correctly rounded float32
// functions, or within one unit in 10^8 cases, so that a normal differs from the
// device's by about 1e-6 (2^-21 times its radius, of 6.7 at most) and an
// exponential by up to 2^-21.4 or 3 ulp, whichever is more.
//
// A fill of n numbers runs on T = 256 G threads, G = min(ceil(n/256), SMS *
// floor(THREADS/256)), where SMS counts the device's multiprocessors and THREADS
// the threads each can hold. Thread i runs subsequence i of Philox4x32-10: the
// seed is the key, and the counter holds a 64-bit block number, low words, and
// i. One block makes numbers i, i+T, i+2T and i+3T, the next one those 4T
// further on. So the numbers depend on the device as soon as n > T. All blocks
// are counted in the generator's offset, four to a block
// (aten/src/ATen/native/cuda/DistributionTemplates.h).
//
// A generator serves one goroutine at a time; each fill spreads over the
// processors.
type TorchCUDA struct {
	sms, threads int
	seed, offset uint64
}

var _ Draws = (*TorchCUDA)(nil)

// defaultThreads is the number of threads a multiprocessor holds in devices of
// compute capability 7.0, 8.0, 9.0 and 10.0, among them V100, A100, H100 and
// B200. It is 1536 for 8.6, 8.9 and 12.0 (RTX 30, 40, 50, A10, L40) and 1024 for
// 7.5 (T4).
const defaultThreads = 2048

const (
	cudaBlock = 256     // threads of a thread block
	cudaMost  = 1 << 29 // numbers of one fill
)

// newTorchCUDA returns the stream of a device with that many multiprocessors,
// each with room for that many threads (torch.cuda.get_device_properties:
// multi_processor_count and max_threads_per_multi_processor), seeded with 0.
// Other than 1 to 65535 multiprocessors and 256 to 4096 threads are errors.
func newTorchCUDA(sms, threads int) (*TorchCUDA, error) {
	g := &TorchCUDA{sms: sms, threads: threads}
	if sms < 1 || sms > 1<<16-1 || threads < cudaBlock || threads > 4096 {
		return nil, fmt.Errorf("noise: stream %.60q: want 1 to 65535 multiprocessors of 256 to 4096 threads", g)
	}
	return g, nil
}

// ParseTorchCUDA returns the stream named torch-cuda:SMS[:THREADS]; THREADS is
// 2048 if the name has none, as V100, A100, H100 and B200 have them (1536 in RTX 30, 40
// and 50, A10 and L40, 1024 in T4). SMS and THREADS are
// torch.cuda.get_device_properties' multi_processor_count and
// max_threads_per_multi_processor. Other than 1 to 65535 multiprocessors and 256 to 4096
// threads are errors, and so is a name of another form. The stream is seeded with 0.
func ParseTorchCUDA(name string) (*TorchCUDA, error) {
	device, ok := strings.CutPrefix(name, "torch-cuda:")
	parts := strings.Split(device, ":")
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		ok = ok && err == nil && strconv.Itoa(n) == s
		return n
	}
	sms, threads := number(parts[0]), defaultThreads
	if len(parts) > 1 {
		threads = number(parts[1])
	}
	if !ok || len(parts) > 2 {
		return nil, fmt.Errorf("noise: stream %.60q is not of the form torch-cuda:SMS[:THREADS], "+
			"SMS the device's number of multiprocessors", name)
	}
	return newTorchCUDA(sms, threads)
}

// String returns the stream's full name, such as torch-cuda:132:2048.
func (g *TorchCUDA) String() string { return fmt.Sprintf("torch-cuda:%d:%d", g.sms, g.threads) }

// Seed restarts the stream as torch.manual_seed(seed) does; all 64 bits count,
// and the offset is 0. PyTorch reads a negative seed as its two's complement.
func (g *TorchCUDA) Seed(seed uint64) { g.seed, g.offset = seed, 0 }

// State returns the generator's seed and offset, the two numbers of
// torch.cuda.get_rng_state().
func (g *TorchCUDA) State() (seed, offset uint64) { return g.seed, g.offset }

// SetState continues from a recorded state. An offset that is no multiple of 4
// is an error, as it is to PyTorch.
func (g *TorchCUDA) SetState(seed, offset uint64) error {
	if offset%4 != 0 {
		return fmt.Errorf("noise: %v: offset %d: want a multiple of 4", g, offset)
	}
	g.seed, g.offset = seed, offset
	return nil
}

// Draw implements [Draws]. A p outside [0,1], an unknown kind and a fill of more
// than 2^29 numbers, which PyTorch splits, are errors; a dst that does not have
// the shape panics. An empty fill leaves the offset alone.
func (g *TorchCUDA) Draw(kind Kind, p float64, shape []int, dst []float64) error {
	if err := checkTorchDraw(g, kind, p, shape, dst); err != nil {
		return err
	}
	if len(dst) > cudaMost {
		return fmt.Errorf("noise: %v: %d numbers: want at most %d in a draw", g, len(dst), cudaMost)
	}
	g.fill(dst, cudaNumbers(kind, p))
	return nil
}

// Uniform fills dst as torch.rand does, with numbers in [0, 1). It panics if dst
// is longer than 2^29.
func (g *TorchCUDA) Uniform(dst []float64) {
	if len(dst) > cudaMost {
		panic("noise: more than 2^29 numbers in a fill")
	}
	g.fill(dst, func(x, y uint32) (float32, float32) { return cudaRand(x), cudaRand(y) })
}

// cudaLaunch is the arrangement of a fill.
type cudaLaunch struct {
	key     uint64
	block   uint64 // number of the first Philox block
	threads int    // T
	rounds  int    // blocks of each thread
}

// launch arranges a fill of n > 0 numbers.
func (g *TorchCUDA) launch(n int) cudaLaunch {
	t := cudaBlock * min((n+cudaBlock-1)/cudaBlock, g.sms*(g.threads/cudaBlock))
	return cudaLaunch{g.seed, g.offset / 4, t, (n-1)/(4*t) + 1}
}

// words returns block number round of a thread.
func (l *cudaLaunch) words(round, thread int) (x0, x1, x2, x3 uint32) {
	b := l.block + uint64(round)
	return philox(uint32(l.key), uint32(l.key>>32), uint32(b), uint32(b>>32), uint32(thread), 0)
}

// cudaPair makes two numbers of two words.
type cudaPair func(x, y uint32) (float32, float32)

// number returns number i of the fill. It is what fill does, said once for one
// number.
func (l *cudaLaunch) number(i int, numbers cudaPair) float32 {
	round, rest := i/(4*l.threads), i%(4*l.threads)
	x0, x1, x2, x3 := l.words(round, rest%l.threads)
	a, b := numbers(x0, x1)
	c, d := numbers(x2, x3)
	return [4]float32{a, b, c, d}[rest/l.threads]
}

// fill writes the numbers and advances the offset.
func (g *TorchCUDA) fill(dst []float64, numbers cudaPair) {
	n := len(dst)
	if n == 0 {
		return
	}
	l := g.launch(n)
	par.For(l.rounds*(l.threads/cudaBlock), func(piece int) {
		round, first := piece%l.rounds, piece/l.rounds*cudaBlock
		for i := first; i < first+cudaBlock; i++ {
			at := 4*l.threads*round + i
			if at >= n {
				break
			}
			x0, x1, x2, x3 := l.words(round, i)
			a, b := numbers(x0, x1)
			dst[at] = float64(a)
			if at += l.threads; at < n {
				dst[at] = float64(b)
			}
			if at += l.threads; at < n {
				c, d := numbers(x2, x3)
				dst[at] = float64(c)
				if at += l.threads; at < n {
					dst[at] = float64(d)
				}
			}
		}
	})
	g.offset += 4 * uint64(l.rounds)
}

// cudaNumbers returns what makes numbers of a kind.
func cudaNumbers(kind Kind, p float64) cudaPair {
	switch kind {
	case Exponential:
		return func(x, y uint32) (float32, float32) { return cudaExponential(x), cudaExponential(y) }
	case Bernoulli:
		p := float32(p)
		coin := func(x uint32) float32 {
			if cudaUniform(x) < p {
				return 1
			}
			return 0
		}
		return func(x, y uint32) (float32, float32) { return coin(x), coin(y) }
	case ComplexNormal:
		return func(x, y uint32) (float32, float32) { return cudaNormal(x, y, float32(1/math.Sqrt2)) }
	}
	return func(x, y uint32) (float32, float32) { return cudaNormal(x, y, 1) }
}

// cudaUniform returns curand_uniform's x 2^-32 + 2^-33 in (0, 1]: x is rounded
// to float32 first; the product is exact.
func cudaUniform(x uint32) float32 { return float32(float32(x)*0x1p-32) + 0x1p-33 }

// cudaRand returns the number that torch.rand makes of a word: CURAND's, with 0
// for 1.
func cudaRand(x uint32) float32 {
	u := cudaUniform(x)
	if u == 1 {
		return 0
	}
	return u
}

// cudaNormal returns curand_normal's two numbers times the standard deviation:
// the sine is the first. As on the CPU, the mean 0 that PyTorch adds makes +0 of
// the -0 that comes of u = 1.
func cudaNormal(x, y uint32, std float32) (float32, float32) {
	const step = float32(2.3283064e-10) * float32(6.2831855) // 2 pi 2^-32
	v := float64(single.FMA(float32(y), step, step/2))
	s := float32(math.Sqrt(float64(-2 * float32(elem.Log(float64(cudaUniform(x)))))))
	sin, cos := float32(elem.Sin(v)), float32(elem.Cos(v))
	return float32(float32(sin*s)*std) + 0, float32(float32(cos*s)*std) + 0
}

// cudaExponential returns -ln u, where u = 1 counts as u = 1 - 2^-24: a number
// of Tensor.exponential_() is never 0.
func cudaExponential(x uint32) float32 {
	u := cudaUniform(x)
	if u >= 1-0x1p-24 {
		return 0x1p-24
	}
	return float32(-elem.Log(float64(u)))
}
