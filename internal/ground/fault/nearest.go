package fault

import "fmt"

// Nearest returns the name that a mistyped one was probably meant to be, "" if none is near:
// one that is a few letters away, at most a third of its length, or that goes on where the
// mistyped one ends.
func Nearest(name string, known []string) string {
	best, least := "", 1<<30
	for _, k := range known {
		far := Distance(name, k)
		if len(name) >= 3 && len(k) > len(name) && k[:len(name)] == name {
			far = 1
		}
		if far <= min(len(name), len(k))/3+1 && far < min(len(name), len(k)) && far < least {
			best, least = k, far
		}
	}
	return best
}

// Meant is what an error says of a mistyped name: " did you mean run?", or nothing.
func Meant(name string, known []string) string {
	if k := Nearest(name, known); k != "" {
		return fmt.Sprintf(" did you mean %s?", k)
	}
	return ""
}

// Distance is how many letters of a must be put in, left out, replaced or exchanged with their
// neighbour to make b (Damerau's distance, each place touched once).
func Distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 { // nobody mistypes that
		return 64
	}
	var rows [3][65]int // the last but one, the last and this
	for i := 0; i <= len(a); i++ {
		rows[0], rows[1] = rows[1], rows[2]
		for j := 0; j <= len(b); j++ {
			switch {
			case i == 0 || j == 0:
				rows[2][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[2][j] = rows[1][j-1]
			default:
				rows[2][j] = 1 + min(rows[1][j-1], rows[1][j], rows[2][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[2][j] = min(rows[2][j], rows[0][j-2]+1)
			}
		}
	}
	return rows[2][len(b)]
}
