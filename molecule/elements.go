package molecule

import "strings"

// symbols are the chemical symbols by atomic number; X is unknown, as ASE has it.
var symbols = strings.Fields(`X
H He
Li Be B C N O F Ne
Na Mg Al Si P S Cl Ar
K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr
Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe
Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn
Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og`)

var numberOf = func() map[string]int {
	of := map[string]int{}
	for z, s := range symbols {
		of[s] = z
	}
	return of
}()

// symbol returns the chemical symbol of an atomic number, X for one that has none.
func symbol(z int) string {
	if z < 0 || z >= len(symbols) {
		return symbols[0]
	}
	return symbols[z]
}

// Formula returns how many atoms of each element there are, in Hill's order: carbon, hydrogen, then
// by the alphabet, as in C6H6.
func (m *Molecule) Formula() string {
	count := map[string]int{}
	for _, z := range m.Numbers {
		count[symbol(z)]++
	}
	var b strings.Builder
	write := func(s string) {
		if n := count[s]; n > 0 {
			b.WriteString(s)
			if n > 1 {
				b.WriteString(digits(n))
			}
			delete(count, s)
		}
	}
	if count["C"] > 0 {
		write("C")
		write("H")
	}
	for _, s := range sorted(count) {
		write(s)
	}
	return b.String()
}
