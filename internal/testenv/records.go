package testenv

import (
	"strings"
	"testing"
	"time"
)

// Records passes on what is logged: every line goes into the channel, as long as there is room.
type Records chan string

// Write implements io.Writer for a handler of package slog, which writes a line at a time.
func (r Records) Write(line []byte) (int, error) {
	select {
	case r <- string(line):
	default:
	}
	return len(line), nil
}

// Next waits for a line that contains all of the words.
func (r Records) Next(t testing.TB, words ...string) string {
	t.Helper()
	timeout := time.After(time.Minute)
next:
	for {
		select {
		case line := <-r:
			for _, w := range words {
				if !strings.Contains(line, w) {
					t.Logf("also logged: %.300s", line)
					continue next
				}
			}
			return line
		case <-timeout:
			t.Fatalf("nothing with %q was logged", words)
		}
	}
}
