//go:build purego || !(amd64 || arm64)

package coro

// asEnds gives both ends of a pull one type.
var asEnds = plainEnds
