// Package ownconn gives the packages of this module the methods of a netpoll.Conn that programs do not need. It lies below
// netpoll and the layers that use it, and knows neither.
package ownconn

import "net"

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
