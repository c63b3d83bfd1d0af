//go:build linux && otlp

package main

import (
	"context"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestOTLPIsBuiltIn: a receiver is opened by its URL.
func TestOTLPIsBuiltIn(t *testing.T) {
	r := testenv.Need(openOTLP("http://localhost:4318"))(t)
	testenv.Check(t, r.Close())
	commandIn(t, context.Background(), &surroundings{clock: newFakeClock(), openOTLP: openOTLP}, "-serve", ":0", "-otlp", "localhost:4318", "http://127.0.0.1:1").fails(t, "want a URL like http://localhost:4318")
}
