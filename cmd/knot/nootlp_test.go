//go:build !otlp

package main

import "testing"

// TestOTLPIsLeftOut: a knot without the tag says so, with the line of the file.
func TestOTLPIsLeftOut(t *testing.T) {
	file := configFile(t, "root = %q\notlp = \"http://localhost:4318\"\n", t.TempDir())
	fails(t, exitFailed, file+":2: -otlp: this knot is built without OpenTelemetry; build it with -tags otlp", "-config", file)
}
