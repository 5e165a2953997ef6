package oracle

import (
	"io"

	"github.com/refrun/refrun/internal/oracle/render"
	"github.com/refrun/refrun/oracle/report"
)

// Text returns a report as the command prints it.
func Text(r *report.Report) string { return render.Text(r) }

// WriteJSON writes a report for scripts; docs/FORMATS.md describes its fields.
func WriteJSON(w io.Writer, r *report.Report) error { return render.WriteJSON(w, r) }

// WriteJUnit writes a report for CI, with a test case for each gate.
func WriteJUnit(w io.Writer, r *report.Report) error { return render.WriteJUnit(w, r) }

// WriteHTML writes a report as one page with pictures of the errors.
func WriteHTML(w io.Writer, r *report.Report) error { return render.WriteHTML(w, r) }
