//go:build !unix

package main

import (
	"testing"
	"time"
)

// special: other systems have no pipes and sockets among their files.
func special(*testing.T) []string { return nil }

var began = time.Now()

// processorSeconds is the time that passed, where the system does not say more.
func processorSeconds() float64 { return time.Since(began).Seconds() }
