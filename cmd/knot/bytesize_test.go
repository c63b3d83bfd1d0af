package main

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "7B": 7, "500KB": 500 << 10, "500kb": 500 << 10, "64M": 64 << 20, "64 MB": 64 << 20,
		"1GiB": 1 << 30, "3g": 3 << 30, "12 b": 12,
		"": -1, "MB": -1, "-1": -1, "-1MB": -1, "1.5MB": -1, "64XB": -1, "1KBB": -1, "1MKB": -1, "99999999999GB": -1, "1TB": -1,
	} {
		b := byteSize(-1)
		if err := b.Set(text); (err != nil) != (want < 0) || int64(b) != want {
			t.Errorf("%q is %d, %v; want %d", text, b, err, want)
		}
	}
	for b, want := range map[byteSize]string{0: "0", 1: "1B", 1 << 10: "1KB", 1000: "1000B", 64 << 20: "64MB", 5 << 30: "5GB", 3 << 9: "1536B"} {
		testenv.Equal(t, b.String(), want, "%d prints as", int64(b))
	}
}
