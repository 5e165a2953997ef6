// Command glyphs draws the letters of the command's PNG pictures: ASCII from space on and ± ×, in the Go
// font (BSD licence, https://go.dev/blog/go-fonts), one row for each size. The widths stand in
// the first column of a letter's cell, as the grey of its first pixel.
//
//	go run -C scripts/_glyphs . ../../cmd/refrun/glyphs.png
package main

import (
	"image"
	"image/color"
	"image/png"
	"log"
	"os"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// The sizes in points, and the cells: those of cmd/refrun/picture_png.go.
var sizes = []float64{11, 12, 13}

const (
	dpi                   = 110
	wide, high, base, gap = 24, 28, 21, 2
)

func main() {
	letters := []rune("±×")
	for c := '~'; c >= ' '; c-- {
		letters = append([]rune{c}, letters...)
	}
	log.SetFlags(0)
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		log.Fatal(err)
	}
	m := image.NewGray(image.Rect(0, 0, wide*len(letters), high*len(sizes)))
	for row, size := range sizes {
		face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: dpi, Hinting: font.HintingFull})
		if err != nil {
			log.Fatal(err)
		}
		d := &font.Drawer{Dst: m, Src: image.White, Face: face}
		for i, c := range letters {
			x := wide * i
			d.Dot = fixed.P(x+gap, high*row+base)
			d.DrawString(string(c))
			m.SetGray(x, high*row, color.Gray{uint8(d.MeasureString(string(c)).Round())})
		}
	}
	out, err := os.Create(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(out, m); err != nil {
		log.Fatal(err)
	}
	if err := out.Close(); err != nil {
		log.Fatal(err)
	}
}
