package asm

//go:generate sh -c "cd _gen && go run . -out ../winograd_amd64.s -stubs ../winograd_amd64.go -pkg asm"
