package noise

import "testing"

// TestWords compares with the known answers of Random123 for counters and keys that are
// all zeros and all ones.
func TestWords(t *testing.T) {
	if got, want := (Counter{}).Words(0, 0, 0), [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}; got != want {
		t.Errorf("%x, want %x", got, want)
	}
	const ones = 1<<32 - 1
	if got, want := (Counter{1<<64 - 1, ones}).Words(ones, ones, ones),
		[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}; got != want {
		t.Errorf("%x, want %x", got, want)
	}
}
