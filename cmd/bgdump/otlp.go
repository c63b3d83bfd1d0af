//go:build otlp

package main

import "github.com/capriccio-go/capriccio/cmd/bgdump/internal/otlp"

func openOTLP(url string) (receiver, error) { return otlp.Open(url) }
