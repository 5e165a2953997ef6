package asm

//go:generate sh -c "cd _gen && for k in act bytes direct fast hash lines measure noise norm rows singles units whole winograd; do go run . -kernels $DOLLAR{k} -out ../$DOLLAR{k}_amd64.s -stubs ../$DOLLAR{k}_amd64.go -pkg asm; done; go run . -kernels arm64"
