package bigref

import (
	"bufio"
	"fmt"
	"math"
	"math/big"
	"os"
	"testing"

	"github.com/refrun/refrun/fp16"
)

// The points of hard_points.txt are the float32 arguments whose exp, tanh or
// erf lies closest to the middle of two float32 numbers, with the right result.
func TestHardPoints(t *testing.T) {
	file, err := os.Open("../../../testdata/hard_points.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	functions := map[string]func(*big.Float, uint) *big.Float{"Exp": Exp, "Tanh": Tanh, "Erf": Erf}
	rows := 0
	for scan := bufio.NewScanner(file); scan.Scan(); rows++ {
		var name string
		var arg, want uint32
		if _, err := fmt.Sscanf(scan.Text(), "%s %x %x", &name, &arg, &want); err != nil {
			t.Fatalf("row %d: %v", rows+1, err)
		}
		f, ok := functions[name]
		if !ok {
			t.Fatalf("row %d: unknown function %q", rows+1, name)
		}
		x := newF(64).SetFloat64(float64(math.Float32frombits(arg)))
		got := Nearest(fp16.Float32, func(prec uint) *big.Float { return f(x, prec) })
		if g := math.Float32bits(float32(got)); g != want {
			t.Errorf("%s(%#08x): got %#08x, want %#08x", name, arg, g, want)
		}
	}
	if rows != 307 {
		t.Errorf("read %d rows, want 307", rows)
	}
}

// Published digits, and identities that join functions computed by different
// formulas.
func TestElementary(t *testing.T) {
	const prec = 200
	at := func(s string) *big.Float {
		v, _, err := big.ParseFloat(s, 10, prec+64, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	near := func(what string, got, want *big.Float, bits int) {
		t.Helper()
		d := newF(prec).Sub(got, want)
		if d.Sign() != 0 && exponent(d) > exponent(want)-bits {
			t.Errorf("%s: got %.60g, want %.60g", what, got, want)
		}
	}
	near("pi", Pi(prec), at("3.14159265358979323846264338327950288419716939937510582097494"), 190)
	near("e", Exp(at("1"), prec), at("2.71828182845904523536028747135266249775724709369995957496697"), 190)
	near("log 2", Log(at("2"), prec), at("0.693147180559945309417232121458176568075500134360255254120680"), 190)
	near("erf 1/2", Erf(at("0.5"), prec), at("0.520499877813046537682746653891964528736451575757963700058806"), 190)
	near("sin 1", Sin(at("1"), prec), at("0.841470984807896506652502321630298999622563060798371065672752"), 190)
	near("atan 1", newF(prec).Mul(Atan(at("1"), prec), intF(8, 4)), Pi(prec), 190)
	near("atan 2", Atan(at("2"), prec), at("1.10714871779409050301706546017853704007004764540143264667654"), 190)
	near("tanh 1", Tanh(at("1"), prec), at("0.761594155955764888119458282604793590412768597257936551596811"), 190)
	for _, s := range []string{"1e-30", "-0.001", "0.7", "-1.99", "2.01", "5", "-17.5", "30"} {
		x := at(s)
		e := Exp(newF(300).Neg(x), prec+60)
		near("log(exp(-x))", Log(e, prec), newF(prec).Neg(x), 150)
		e.Mul(e, e)
		q := newF(prec).Sub(intF(prec+60, 1), e)
		near("tanh "+s, Tanh(x, prec), q.Quo(q, newF(prec).Add(intF(prec+60, 1), e)), 90)
		s2, c2 := Sin(x, prec), Cos(x, prec)
		if q := newF(prec).Quo(s2, c2); c2.Sign() > 0 && exponent(x) < 1 {
			near("atan tan "+s, Atan(q, prec), x, 150)
		}
		near("sin^2+cos^2 "+s, newF(prec).Add(s2.Mul(s2, s2), c2.Mul(c2, c2)), intF(prec, 1), 190)
	}
	// Both formulas of erfc, on both sides of the place where they meet.
	series, fraction := at("1.9999999999999999999999999999999999999999999999999999999999999"), at("2")
	near("erfc 2", Erfc(series, prec), Erfc(fraction, prec), 180)
}
