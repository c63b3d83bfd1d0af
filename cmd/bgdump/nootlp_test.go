//go:build !otlp

package main

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestOTLPIsLeftOut(t *testing.T) {
	testenv.ErrorSays(t, testenv.Err(openOTLP("http://localhost:4318")), "this bgdump is built without OTLP; build it with -tags otlp", "a bgdump without the tag")
}
