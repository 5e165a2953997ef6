// Package sorting sorts what is short or seldom sorted. Package slices makes a sort of its own
// for each type of element, some 8 KB of code; here all types share one.
package sorting

import "sort"

// By sorts v; compare is negative where a comes before b. Equals stay in their order.
func By[T any](v []T, compare func(a, b T) int) {
	sort.SliceStable(v, func(i, k int) bool { return compare(v[i], v[k]) < 0 })
}
