// Package render writes what a check found: as text for a person, as JSON for scripts, as
// JUnit for CI, and as one page of HTML. It needs the report and nothing else.
//
//	fmt.Print(render.Text(r))
package render
