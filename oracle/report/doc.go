// Package report has what a check found, in values: the verdict, the place of the first
// fault, the findings behind it, and the figures of every step and layer.
//
//	if r.Verdict == report.FailPrecision {
//		fmt.Println(r.FirstStep, r.Diagnosis)
//	}
//
// Package oracle fills a [Report], and package render writes it.
package report
