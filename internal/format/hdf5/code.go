package hdf5

import "bytes"

// coder writes bytes as a block of deflate with codes of its own and no matches (RFC 1951, 3.2.7):
// Huffman's codes, of at most longest bits each.
type coder struct {
	counts [8][256]uint32 // neighbours are often equal: eight counters of it do not wait for each other
	codes  [end + 1]code
}

// code is how a symbol is written: its bits, the first one lowest, times 16, and how many they are.
type code uint32

const (
	longest = 12       // four of them, and the bits before, fit in 64
	end     = 256      // the symbol after the last byte
	none    = 18       // stands for 11 to 138 lengths of 0
	lengths = none + 1 // how many symbols there are of which lengths are written
)

// order is that in which the lengths of the lengths' codes are written.
var order = [lengths]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// write appends the block of p, which is not empty, and an empty one up to the end of a byte.
func (c *coder) write(to *bytes.Buffer, p []byte) {
	to.Grow(len(p)*longest/8 + 512)
	w := bitWriter{b: to.AvailableBuffer()}
	w.b = w.b[:cap(w.b)]
	c.count(p)
	many := [end + 1]uint32{end: 1}
	for _, counts := range &c.counts {
		for i, n := range counts {
			many[i] += n
		}
	}
	assign(c.codes[:], many[:], longest)
	w.put(0b100, 3) // not the last block, and codes of its own
	c.head(&w)
	w.codes(&c.codes, p)
	w.code(c.codes[end])
	w.put(0, 3)           // an empty block of bytes as they are,
	w.put(0, -w.n&7)      // which begins with a byte:
	w.put(0xffff<<16, 32) // 0 of them, and the complement of that
	to.Write(w.b[:w.at])
}

// count counts the bytes of p.
func (c *coder) count(p []byte) {
	n := &c.counts
	clear(n[:])
	for ; len(p) >= 8; p = p[8:] {
		v := le.Uint64(p)
		n[0][v&255]++
		n[1][v>>8&255]++
		n[2][v>>16&255]++
		n[3][v>>24&255]++
		n[4][v>>32&255]++
		n[5][v>>40&255]++
		n[6][v>>48&255]++
		n[7][v>>56]++
	}
	for _, v := range p {
		n[0][v]++
	}
}

// head writes the lengths of the codes, and before them those of the codes that they have.
func (c *coder) head(w *bitWriter) {
	var all []uint8 // lengths, and after each none how many zeros
	for i := 0; i <= end; {
		zeros := 0
		for i+zeros <= end && zeros < 138 && c.codes[i+zeros] == 0 {
			zeros++
		}
		if zeros >= 11 {
			all = append(all, none, uint8(zeros-11))
			i += zeros
			continue
		}
		all = append(all, uint8(c.codes[i]&15))
		i++
	}
	all = append(all, 1) // the one code of distances, which no block uses
	var many [lengths]uint32
	var codes [lengths]code
	for i := 0; i < len(all); i++ {
		if many[all[i]]++; all[i] == none {
			i++
		}
	}
	assign(codes[:], many[:], 7)
	w.put(end+1-257, 5)
	w.put(0, 5) // a code of distances
	w.put(lengths-4, 4)
	for _, i := range order {
		w.put(uint64(codes[i]&15), 3)
	}
	for i := 0; i < len(all); i++ {
		if w.code(codes[all[i]]); all[i] == none {
			i++
			w.put(uint64(all[i]), 7)
		}
	}
}

// assign gives each symbol that there is, of which there must be two, a code of at most most bits:
// the fewest in all, but that those which would be longer are made shorter at the others' cost.
func assign(codes []code, many []uint32, most int) {
	var symbols []int // by falling numbers
	for s, n := range many {
		if codes[s] = 0; n == 0 {
			continue
		}
		symbols = append(symbols, s)
		for i := len(symbols) - 1; i > 0 && many[symbols[i-1]] < n; i-- {
			symbols[i-1], symbols[i] = symbols[i], symbols[i-1]
		}
	}
	of := depths(symbols, many, most)
	// Codes of one length are consecutive numbers, in the symbols' order, and follow on those of
	// one bit less. The shortest ones go to what there is most of.
	var first [17]uint32
	for n := 1; n <= most; n++ {
		first[n] = (first[n-1] + of[n-1]) << 1
	}
	length := 1
	for _, s := range symbols {
		for of[length] == 0 {
			length++
		}
		of[length]--
		codes[s] = code(length)
	}
	for s, c := range codes {
		if c > 0 {
			var reversed uint32
			for bit := range c {
				reversed |= first[c] >> bit & 1 << (c - 1 - bit)
			}
			first[c]++
			codes[s] |= code(reversed << 4)
		}
	}
}

// depths returns how many codes there are of each length.
func depths(symbols []int, many []uint32, most int) (of [17]uint32) {
	// Huffman's tree: the two that there is least of become one. Both the symbols, from the last
	// one on, and the trees made of two come by rising numbers.
	n := len(symbols)
	type node struct {
		many   uint32
		parent int
	}
	nodes := make([]node, 2*n-1)
	for i, s := range symbols {
		nodes[n-1-i].many = many[s]
	}
	leaf, tree := 0, n
	for next := n; next < len(nodes); next++ {
		for range 2 {
			least := &leaf
			if leaf == n || tree < next && nodes[tree].many < nodes[leaf].many {
				least = &tree
			}
			nodes[next].many += nodes[*least].many
			nodes[*least].parent = next
			*least++
		}
	}
	depth := make([]int, len(nodes)) // the last one is the root
	for i := len(nodes) - 2; i >= 0; i-- {
		if depth[i] = depth[nodes[i].parent] + 1; i < n {
			of[min(depth[i], most)]++
		}
	}
	// In units of 2^-most of all there is to give, codes that were cut take too much. One of the
	// longest goes and comes back beside a shorter one, which becomes two of one bit more: one
	// unit less.
	over := -(1 << most)
	for k := 1; k <= most; k++ {
		over += int(of[k]) << (most - k)
	}
	for ; over > 0; over-- {
		k := most - 1
		for of[k] == 0 {
			k--
		}
		of[most]--
		of[k]--
		of[k+1] += 2
	}
	return of
}

// bitWriter writes bits into b, which has room for all, the first one lowest in each byte.
type bitWriter struct {
	b   []byte
	at  int
	acc uint64
	n   uint // bits in acc, less than 8 between calls
}

// put appends the lowest n of x, which has no others, at most 56.
func (w *bitWriter) put(x uint64, n uint) {
	w.acc |= x << (w.n & 63)
	w.n += n
	le.PutUint64(w.b[w.at:], w.acc)
	w.at += int(w.n >> 3)
	w.acc >>= w.n &^ 7 & 63
	w.n &= 7
}

// codes appends the codes of p's bytes, four at a time.
func (w *bitWriter) codes(of *[end + 1]code, p []byte) {
	b, at, acc, n := w.b, w.at, w.acc, w.n
	for ; len(p) >= 4; p = p[4:] {
		v := le.Uint32(p)
		c, d, e, f := of[v&255], of[v>>8&255], of[v>>16&255], of[v>>24]
		cd, ofCD := uint64(c>>4)|uint64(d>>4)<<(c&15), c&15+d&15
		ef, ofEF := uint64(e>>4)|uint64(f>>4)<<(e&15), e&15+f&15
		acc |= (cd | ef<<(ofCD&31)) << (n & 63)
		n += uint(ofCD + ofEF)
		le.PutUint64(b[at:], acc)
		at += int(n >> 3)
		acc >>= n &^ 7 & 63
		n &= 7
	}
	w.at, w.acc, w.n = at, acc, n
	for _, v := range p {
		w.code(of[v])
	}
}

func (w *bitWriter) code(c code) { w.put(uint64(c>>4), uint(c&15)) }
