package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a reader with five minutes meets first.
var firstRead = []string{
	"README.md", "docs/README.md", "docs/CLAIMS.md", "docs/validate-your-gpu.md", "examples/README.md",
}

// Limits of a text that reads well. Passives are found by their form, which takes some
// adjectives for participles.
const (
	mostWords       = 45   // of a sentence
	mostMeanWords   = 14.0 // of all
	mostPassives    = 0.25 // share of sentences
	leastOfSentence = 3    // words; what is shorter is a heading or a cell
)

// TestProse: sentences are short and mostly active, and words of the trade are explained.
func TestProse(t *testing.T) {
	texts := documents(t)
	for _, name := range firstRead {
		sentences := sentencesOf(texts[name])
		words, passives := 0, 0
		for _, s := range sentences {
			n := len(strings.Fields(s))
			words += n
			if n > mostWords {
				t.Errorf("%s: %d words: %s", name, n, s)
			}
			if passive.MatchString(s) {
				passives++
			}
		}
		mean, share := float64(words)/float64(len(sentences)), float64(passives)/float64(len(sentences))
		t.Logf("%s: %d sentences of %.1f words, %.0f %% passive", name, len(sentences), mean, 100*share)
		if len(sentences) < 5 || mean > mostMeanWords || share > mostPassives {
			t.Errorf("%s: %d sentences of %.1f words, %.0f %% passive: want %v words and %v %%",
				name, len(sentences), mean, 100*share, mostMeanWords, 100*mostPassives)
		}
	}
}

// TestWords: a word of the trade that the first documents use is in the list of docs/README.md, and
// what only this project says is not in any of them.
func TestWords(t *testing.T) {
	texts := documents(t)
	_, list, ok := strings.Cut(texts["docs/README.md"], "## Words")
	if !ok {
		t.Fatal("docs/README.md has no list of words")
	}
	trade := []string{"autocast", "case", "claim", "contract", "device", "digest", "fault", "horizon", "oracle",
		"policy", "realization", "rollout", "tape", "ulp", "neural operator", "state", "Winograd", "TF32"}
	for _, word := range trade {
		entry := regexp.MustCompile(`(?im)^\*\*[^*]*\b` + word + `[^*]*\*\*`)
		for _, name := range firstRead {
			if regexp.MustCompile(`(?i)\b`+word+`s?\b`).MatchString(texts[name]) && !entry.MatchString(list) {
				t.Errorf("%s says %q, which docs/README.md does not explain", name, word)
			}
		}
	}
	for _, name := range firstRead {
		for _, phrase := range []string{
			"the house", "its own rules", "what it has is", "utilize", "leverage", "seamless", "blazing",
		} {
			if strings.Contains(strings.ToLower(texts[name]), phrase) {
				t.Errorf("%s says %q", name, phrase)
			}
		}
	}
}

var (
	passive = regexp.MustCompile(
		`(?i)\b(is|are|was|were|be|been|being)\s+(not\s+|also\s+|always\s+)?([a-z]+ed|written|taken|made|given|` +
			`known|drawn|built|read|done|found|shown|left|kept|run|chosen|held|sold)\b`,
	)
	markup   = regexp.MustCompile("(?s)`[^`]*`|<[^>]*>|[*_#]+")
	links    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	endings  = regexp.MustCompile(`[.!?:]["')]?\s+`)
	tableRow = regexp.MustCompile(`(?m)^\s*\|.*$`)
)

// sentencesOf returns the sentences of a text, those in cells of tables too, without code.
func sentencesOf(text string) (all []string) {
	text = fences.ReplaceAllString(text, "")
	text = links.ReplaceAllString(text, "$1")
	text = markup.ReplaceAllStringFunc(text, func(m string) string {
		if m[0] == '`' {
			return "code"
		}
		return ""
	})
	text = tableRow.ReplaceAllStringFunc(text, func(row string) string { return strings.ReplaceAll(row, "|", ".\n\n") })
	for _, paragraph := range regexp.MustCompile(`\n\s*(\n|[-0-9]+\.? )`).Split(text, -1) {
		for _, s := range endings.Split(strings.Join(strings.Fields(paragraph), " ")+" ", -1) {
			if len(strings.Fields(s)) >= leastOfSentence {
				all = append(all, s)
			}
		}
	}
	return slices.Clip(all)
}
