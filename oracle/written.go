package oracle

import (
	"fmt"
	"io"

	"github.com/refrun/refrun/internal/oracle/render"
	"github.com/refrun/refrun/oracle/report"
)

// Write writes a report in a format: text, as the command prints it; json, for scripts,
// whose fields docs/FORMATS.md describes; junit, for CI, with a test case for each gate; or
// html, one page with pictures of the errors.
func Write(w io.Writer, format string, r *report.Report) error {
	switch format {
	case "text":
		_, err := io.WriteString(w, render.Text(r))
		return err
	case "json":
		return render.WriteJSON(w, r)
	case "junit":
		return render.WriteJUnit(w, r)
	case "html":
		return render.WriteHTML(w, r)
	}
	return fmt.Errorf("format %.60q: want text, json, junit or html", format)
}
