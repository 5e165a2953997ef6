package conv

// input transforms what the tiles [lo,hi) read. The parts of a window lie a tile apart, so
// part q of a tile's window is part 0 of the tile to the right, below, or both. Each such
// piece is transformed once and goes to all tiles that read it, four at most; the last
// pieces lie one tile beyond the image.
func (g *fastConv) input(s *worker, lo, hi int) {
	parts := len(g.form.parts)
	per := g.th * g.tw
	for n := lo / per; n <= (hi-1)/per; n++ {
		first, last := max(lo-n*per, 0), min(hi-n*per, per)-1 // tiles of the sample
		for ty := first / g.tw; ty < last/g.tw+parts; ty++ {
			for tx := 0; tx < g.tw+parts-1; tx++ {
				if t := ty*g.tw + tx; parts == 1 && g.InputPair != nil && (n*per+t-lo)%2 == 0 && g.holds(ty, tx+1) &&
					t >= first && t < last {
					g.pair(s, g.window(n*per+t-lo, 0), n, ty, tx)
					tx++
					continue
				}
				var places [4]int
				found := 0
				for q := range parts * parts {
					y, x := ty-q/parts, tx-q%parts
					if t := y*g.tw + x; y >= 0 && x >= 0 && x < g.tw && t >= first && t <= last {
						places[found] = g.window(n*per+t-lo, q)
						found++
					}
				}
				if found > 0 {
					g.transform(s, &places, found, n, ty, tx)
				}
			}
		}
	}
}

// window returns the place in a unit's V of part q of the window of its tile t.
func (g *fastConv) window(t, q int) int {
	return (t/g.Tiles*g.blocks*g.Tiles+t%g.Tiles)*block + q*g.src.Blocks()*g.Tiles*block
}

// transform transforms one piece, all channels of it, into so many places of V.
func (g *fastConv) transform(s *worker, places *[4]int, found, n, ty, tx int) {
	for i := range s.singles.also {
		s.singles.also[i] = 4 * (places[min(i+1, found-1)] - places[0])
	}
	m, frame, side, blocks := g.form.form.Tile, g.k.kh/2, g.form.form.Side, g.src.Blocks()
	src, v := g.src.at(n, 0, ty*m-frame, tx*m-frame), s.singles.v[places[0]:]
	plane := g.Tiles * block
	if g.holds(ty, tx) {
		g.Input(&g.src.data[src], g.src.line*4, g.src.plane*4, &v[0], &s.singles.also, g.vPoint*4, plane*4, blocks,
			&s.singles.t[0])
		return
	}
	for b := range blocks {
		g.edge(s.singles.edge, src+b*g.src.plane, ty, tx)
		g.Input(&s.singles.edge[0], side*block*4, 0, &v[b*plane], &s.singles.also, g.vPoint*4, 0, 1, &s.singles.t[0])
	}
}

// pair transforms the windows of a tile and the one to the right of it, which is the next
// one of V.
func (g *fastConv) pair(s *worker, place, n, ty, tx int) {
	m, frame := g.form.form.Tile, g.k.kh/2
	src := g.src.at(n, 0, ty*m-frame, tx*m-frame)
	g.InputPair(&g.src.data[src], g.src.line*4, g.src.plane*4, &s.singles.v[place], &s.singles.also, g.vPoint*4,
		g.Tiles*block*4, g.src.Blocks(), &s.singles.t[0])
}

// ends returns the rows and columns from the first pixel of a piece's to where the source's
// memory ends.
func (g *fastConv) ends(ty, tx int) (rows, cols int) {
	m, frame := g.form.form.Tile, g.k.kh/2+g.src.Frame
	return up4(g.src.H) + frame - ty*m, up4(g.src.W) + frame - tx*m
}

// holds reports whether a piece is that of a tile, with memory for all of it.
func (g *fastConv) holds(ty, tx int) bool {
	rows, cols := g.ends(ty, tx)
	return ty < g.th && tx < g.tw && min(rows, cols) >= g.form.form.Side
}

// edge copies a piece that lies beyond the image's last tile, or ends beyond the image. Of
// the former no output reads its last row (below) or column (to the right): those become
// zeros, whatever the memory holds, and so does what lies beyond the image.
func (g *fastConv) edge(dst []float32, src, ty, tx int) {
	side := g.form.form.Side
	rows, cols := g.ends(ty, tx)
	rows, cols = min(rows, side), min(cols, side)
	if ty == g.th {
		rows = g.k.kh - 1
	}
	if tx == g.tw {
		cols = g.k.kw - 1
	}
	clear(dst)
	for y := range rows {
		copy(dst[y*side*block:], g.src.data[src+y*g.src.line:][:cols*block])
	}
}

// nextWindows is what the next unit reads of the source, in pieces that multiplications
// ask for, the last ones before it: a piece of each block of channels after the other.
type nextWindows struct {
	from, end int // of the first block
	piece     int // numbers that a multiplication asks for
	pieces    int // of a block
	calls     int // multiplications
}

// nextWindows returns that of the unit that ends with tile hi, of n groups and so many
// multiplications.
func (g *fastConv) nextWindows(hi, n, calls int) nextWindows {
	if hi >= g.tiles() {
		return nextWindows{}
	}
	m, frame := g.form.form.Tile, g.k.kh/2
	sample, y, x := g.place(hi)
	_, last, _ := g.place(min(hi+n*g.Tiles, (sample+1)*g.th*g.tw) - 1)
	w := nextWindows{piece: n * g.blocks * 32, calls: calls,
		from: g.src.at(sample, 0, y-frame, x-frame), end: g.src.at(sample, 0, last+m+frame, 0)}
	w.pieces = (w.end - w.from + w.piece - 1) / w.piece
	return w
}

// later returns what the next multiplication asks for, at most where nothing says so.
func (g *fastConv) later(w *nextWindows, idle *float32) *float32 {
	w.calls--
	if k := w.pieces*g.src.Blocks() - 1 - w.calls; k >= 0 && w.calls >= 0 {
		return &g.src.data[min(w.from+k/w.pieces*g.src.plane+k%w.pieces*w.piece, len(g.src.data)-1)]
	}
	return idle
}
