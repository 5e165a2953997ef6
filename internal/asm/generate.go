package asm

//go:generate sh _gen/all
