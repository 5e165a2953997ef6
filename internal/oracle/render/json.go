package render

import (
	"encoding/json"
	"io"

	"github.com/refrun/refrun/oracle/report"
)

// WriteJSON writes the report as one JSON object. Numbers that are not finite
// are the strings "inf", "-inf" and "nan".
func WriteJSON(w io.Writer, r *report.Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(r)
}
