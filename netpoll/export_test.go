//go:build linux

package netpoll

import (
	"github.com/capriccio-go/capriccio/ressched"
)

// Methods that programs do not have, for tests.
func (c *Conn) OnHangup(fn *func()) bool { return (*inner)(c).OnHangup(fn) }
func (c *Conn) Quiet() bool              { return (*inner)(c).Quiet() }
func (c *Conn) OnReadableAt(e *ressched.Entrance, fn func()) error {
	return (*inner)(c).OnReadableAt(e, fn)
}
func (c *Conn) StartAt(e *ressched.Entrance, fn func()) bool { return (*inner)(c).StartAt(e, fn) }
func (c *Conn) Ended() bool                                  { return (*inner)(c).Ended() }
func (c *Conn) ReadNow(b []byte) (int, error)                { return (*inner)(c).ReadNow(b) }
func (c *Conn) WriteNow(b []byte) (int, error)               { return (*inner)(c).WriteNow(b) }
func (c *Conn) HungUp() bool                                 { return (*inner)(c).HungUp() }
func (c *Conn) Unread() bool                                 { return (*inner)(c).Unread() }
func (c *Conn) WriteRoom() int                               { return (*inner)(c).WriteRoom() }
