package load

import (
	"fmt"
	"net/netip"
)

// Held is a set of idle connections, each of which has had one exchange.
type Held struct{ conns []socket }

// Hold opens idle connections: at most MaxConns, or an error.
func Hold(addr netip.AddrPort, conns int) (*Held, error) {
	if conns < 1 || conns > MaxConns {
		return nil, fmt.Errorf("load: %d connections, want 1 to %d", conns, MaxConns)
	}
	h := &Held{}
	for i := range conns {
		s, err := connect(addr, i)
		if err != nil {
			h.Close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, conns, err)
		}
		h.conns = append(h.conns, s)
		if _, err := s.exchange(); err != nil {
			h.Close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, conns, err)
		}
	}
	return h, nil
}

// Close closes the connections.
func (h *Held) Close() {
	for _, s := range h.conns {
		s.close()
	}
	h.conns = nil
}
