package timeleft

import (
	"testing"
	"time"
)

func TestMilliseconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "1": time.Millisecond, "002500": 2500 * time.Millisecond, "999999999999999": longest} {
		if got, ok := Milliseconds([]byte(text)); !ok || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.5", "1 ", "0x1", "1s", "1000000000000000", "inf"} {
		if got, ok := Milliseconds([]byte(text)); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestGRPC(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0n": 0, "7n": 7, "12u": 12 * time.Microsecond, "100m": 100 * time.Millisecond, "5S": 5 * time.Second, "2M": 2 * time.Minute, "1H": time.Hour, "99999999H": longest,
	} {
		if got, ok := GRPC([]byte(text)); !ok || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "S", "1", "1s", "1ms", "-1S", "123456789S", "1.5S"} {
		if got, ok := GRPC([]byte(text)); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// What is written is read as at most that, and nearly that.
func TestFormats(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, 99_999_999, 100_000_000, 1500 * time.Millisecond, time.Hour, 48 * time.Hour, 10_000 * time.Hour, longest} {
		want := max(d, 0)
		if got, ok := GRPC([]byte(FormatGRPC(d))); !ok || got > want || got < want-want/1000 {
			t.Errorf("%v is %s, which is %v, %v", d, FormatGRPC(d), got, ok)
		}
		if got, ok := Milliseconds([]byte(FormatMilliseconds(d))); !ok || got > want || got < want-time.Millisecond {
			t.Errorf("%v is %s, which is %v, %v", d, FormatMilliseconds(d), got, ok)
		}
	}
}
