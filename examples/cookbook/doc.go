//go:build linux

// Package cookbook has the code of docs/cookbook.md: one file for each recipe, and an example that runs it.
package cookbook
