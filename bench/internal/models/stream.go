package models

import (
	"bufio"
	"io"
)

// ServeStream answers requests on a connection that blocks, one after another: what a task or a
// goroutine does for each. It returns at the connection's end.
func ServeStream(c io.ReadWriter, store *Store) error {
	r := bufio.NewReaderSize(c, 2048)
	var request, answer []byte
	for {
		head, err := r.Peek(headBytes)
		if err != nil {
			return err
		}
		n, err := requestBytes(head)
		if err != nil {
			return err
		}
		if cap(request) < n {
			request = make([]byte, n)
		}
		if _, err := io.ReadFull(r, request[:n]); err != nil {
			return err
		}
		answer = store.Answer(answer[:0], request[:n])
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
}
