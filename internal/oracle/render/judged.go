package render

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
)

// Judged is what a verb that judges says to CI, whatever it judged.
type Judged struct {
	Verb    string // such as "check"
	Version string // of the program
	Subject string // what was judged, such as a file's path
	Verdict string // such as FAIL-LOGIC
	Code    int    // the exit code: 0 right, 1 wrong, 3 this run could not have shown it
	Text    string // what the verb prints for people
	// Rule is the ID of the fault that was named, or "" if none was.
	Rule string
}

// WriteJudgedJUnit writes it as a suite of one case for CI, which is skipped if the run could not have shown a fault.
func WriteJudgedJUnit(w io.Writer, j Judged) error {
	c := junitCase{Class: j.Verb, Name: j.Subject}
	switch j.Code {
	case 0:
	case noPower:
		c.Skipped = &junitFault{j.Verdict, j.Text}
	default:
		c.Failure = &junitFault{j.Verdict, j.Text}
	}
	s := junitSuite{Name: "refrun " + j.Verb, Cases: []junitCase{c}, Out: j.Text}
	s.count()
	_, err := io.WriteString(w, s.xml())
	return err
}

// noPower is the exit code of a run that could not have shown a fault.
const noPower = 3

// WriteSARIF writes it as a log of SARIF 2.1.0 with one result.
func WriteSARIF(w io.Writer, j Judged) error {
	kind, level := "pass", "none"
	switch j.Code {
	case 0:
	case noPower:
		kind = "open"
	default:
		kind, level = "fail", "error"
	}
	rule := j.Rule
	if rule == "" {
		rule = j.Verb + "." + j.Verdict
	}
	type object = map[string]any
	text := object{"text": j.Text}
	log := object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []object{{
			"tool": object{"driver": object{
				"name": "refrun", "version": j.Version, "informationUri": "https://github.com/refrun/refrun",
				"rules": []object{{"id": rule, "shortDescription": object{"text": j.Verdict + " of refrun " + j.Verb}}},
			}},
			"results": []object{{
				"ruleId": rule, "ruleIndex": 0, "kind": kind, "level": level, "message": text,
				"locations": []object{{"physicalLocation": object{"artifactLocation": object{"uri": uri(j.Subject)}}}},
			}},
		}},
	}
	out, err := json.MarshalIndent(log, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(out, '\n'))
	return err
}

// uri is a path as SARIF has it, relative to the folder in which the program ran.
func uri(path string) string { return (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() }
