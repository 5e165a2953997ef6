package disk

import "path/filepath"

// Real returns the name of what a path leads to, through all links.
func Real(name string) (string, error) { return filepath.EvalSymlinks(name) }
