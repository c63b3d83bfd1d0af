package main

import (
	"fmt"
	"os"
)

// A worker can't go on after an error: its process says what it was, and ends.

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
