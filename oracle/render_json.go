package oracle

import (
	"encoding/json"
	"io"
)

// WriteJSON writes the report as one JSON object. Numbers that are not finite
// are the strings "inf", "-inf" and "nan".
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(r)
}
