package testenv

import (
	"bytes"
	"sync"
)

// A Buffer is a bytes.Buffer that may be written and looked at from anywhere.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
