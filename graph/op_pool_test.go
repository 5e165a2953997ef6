package graph

import "fmt"

func init() {
	for axes := 1; axes <= 3; axes++ {
		for _, name := range []string{"max_pool%dd", "adaptive_avg_pool%dd", "adaptive_max_pool%dd"} {
			ruleRow(fmt.Sprintf(name, axes), fmt.Sprintf(name, axes), false)
		}
	}
	ruleRow("avg_pool1d", "avg_pool1d", false)
	ruleRow("avg_pool3d", "avg_pool3d", false)
}
