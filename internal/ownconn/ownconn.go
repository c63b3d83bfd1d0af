// Package ownconn gives the packages of this module the methods of a netpoll.Conn that programs do not need. It lies below
// netpoll and the layers that use it, and knows neither.
package ownconn

import (
	"io"
	"net"
	"time"
)

// inner is that of package netpoll; nil in programs without it.
var inner func(net.Conn) any

// Register is for package netpoll, when it is initialised: of returns nil for connections of other packages.
func Register(of func(net.Conn) any) { inner = of }

// Of returns the value with these methods for a netpoll.Conn, and nc itself for a connection of another package, which may
// have some of them. Its user asserts the methods that it needs; netpoll documents them.
func Of(nc net.Conn) any {
	if inner != nil {
		if own := inner(nc); own != nil {
			return own
		}
	}
	return nc
}

// Past is a deadline that has passed for certain: reads and writes that wait end at once.
var Past = time.Unix(1, 0)

// Pages is what the SendFile of a netpoll.Conn asks about the file that it sends. *aio.File is one.
type Pages interface {
	io.ReaderAt
	// Resident returns how many bytes from offset off on, at most n, can be had without
	// waiting for a disk; below 0 if that can't be told. It never parks.
	Resident(off, n int64) int64
	// Prefetch returns when n bytes from off on are in memory, as far as the file has
	// them. It may park.
	Prefetch(off, n int64) error
}
