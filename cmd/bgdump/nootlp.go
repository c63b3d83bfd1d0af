//go:build !otlp

package main

import "errors"

// openOTLP fails: the exporter of OpenTelemetry would add a third to the size of bgdump, for few users.
func openOTLP(string) (receiver, error) {
	return nil, errors.New("this bgdump is built without OTLP; build it with -tags otlp")
}
