package oracle

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryTextSentence: each sentence with which a report is explained and drawn is in a
// pair of TestSentences, TestTableSentences, TestHTMLSentences or TestJUnitSentences, by
// some words that stand together in it, or explains a figure and concludes nothing.
func TestEveryTextSentence(t *testing.T) {
	pairs := ""
	const render = "../internal/oracle/render/"
	for _, file := range []string{"sentences_test.go", render + "sentences_test.go", "sentences_advice_test.go"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pairs += string(b)
	}
	seen := map[string]bool{}
	for _, file := range []string{"decide_reason.go", "decide_causes.go", "report/report.go", render + "text.go",
		render + "html.go", render + "tables.go", render + "junit.go", "internal/measure/words.go",
		"../internal/oracle/words/words.go"} {
		for _, s := range sentencesOf(t, file) {
			held := slices.ContainsFunc(regexp.MustCompile(`%[-+.0-9]*[a-z]|[.:;,]\s`).Split(s, -1), func(part string) bool {
				words := strings.Fields(part)
				for i := 0; len(words) > 1 && i+min(len(words), 4) <= len(words); i++ {
					if strings.Contains(pairs, strings.Join(words[i:i+min(len(words), 4)], " ")) {
						return true
					}
				}
				return false
			})
			if seen[s] = true; !held && !slices.Contains(explaining, s) {
				t.Errorf("%s: %q is in no pair", file, s)
			}
		}
	}
	for _, s := range explaining {
		if !seen[s] {
			t.Errorf("%q is in no source", s)
		}
	}
}

// explaining are labels, figures and joints of sentences.
var explaining = []string{
	"         (%d more)\n", "block of", " would (refrun probe)",
	"%d %ss", "%d (%s)", "%d of %d steps show it.",
	"%d realizations of %d states, %s", "%d to %d", "%s and %d more", "%s, step %d", "; states %v",
	"(%d more)\n", ", and ",
	", in ", ", layer ", "realization %d", ", realization %d", "; expected %s and %s; RMS over expected %s",
	"Checked: %s of %s", "RMS of E/s", "VERDICT  %s\n",
	"bias z", "flips (limit)", "largest %s, mean %s", "peak |E|/s", "rel. L2",
	"step %d, r%d [%d,%d,%d]", "step %d: ", "worst element",
	// frames of pages and files
	", refrun check.",
	"p class=\"note\"",
	"<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n" +
		"<meta name=\"viewport\" content=\"width=device-width\">\n",
	" - refrun check",
	"p class=\"where\"",
	"p class=\"reason\"",
	"\n<div class=\"wide\"><table class=\"facts\">\n",
	"<div class=\"wide\"><table><tr>",
	"<div class=\"maps\">",
	"<testsuites>\n <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\">\n",
	"  <testcase classname=\"%s\" name=\"%s\">",
	"  <system-out>%s</system-out>\n </testsuite>\n</testsuites>\n",
	"\n   <%s message=\"%s\">%s</%[1]s>\n  ",
}
