package ownconn

import (
	"encoding/binary"
	"net/netip"
)

// ClientOf is a number for the host at ip, 0 if that is not valid. One network of IPv6 (a /64, RFC 6177)
// counts as one client.
func ClientOf(ip netip.Addr) uint32 {
	if !ip.IsValid() {
		return 0
	}
	ip = ip.Unmap()
	var h uint64
	if ip.Is4() {
		b := ip.As4()
		h = uint64(binary.BigEndian.Uint32(b[:]))
	} else {
		b := ip.As16()
		h = binary.BigEndian.Uint64(b[:8])
	}
	return uint32(h * 0x9e3779b97f4a7c15 >> 32)
}
