package report

// Order is the order of k, and the arithmetic, that explains the most results of a kernel that sums in float32.
type Order struct {
	Name  string `json:"name"` // in words
	Equal int    `json:"equal"`
	Of    int    `json:"of"` // how many sums were looked at
	// Alike are others that give the same bits, all that were looked at: these numbers do not tell them apart.
	Alike []string `json:"alike,omitempty"`
	// Next is the one of all others that explains the most, and NextEqual how many: what a wrong guess explains.
	Next      string `json:"next,omitempty"`
	NextEqual int    `json:"next_equal"`
}
