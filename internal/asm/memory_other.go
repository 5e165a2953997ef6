//go:build !linux

package asm

func advise([]byte) {}
