//go:build linux

package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listening returns the TCP addresses where a process listens and that this machine reaches by
// its loopback interface, as HOST:PORT, in the order of the ports. With onlyLoopback it returns only addresses that no
// other machine reaches. proc(5) has the format.
func (k *kernel) listening(pid int, onlyLoopback bool) ([]string, error) {
	theirs, err := os.Readlink(k.path(pid, "ns/net"))
	ours, err2 := os.Readlink(filepath.Join(k.proc, "self", "ns", "net"))
	if err == nil && err2 == nil && theirs != ours { // at the same addresses here, others answer
		return nil, errors.New("it has a network of its own, as in a container; ask by its URL")
	}
	entries, err := os.ReadDir(k.path(pid, "fd"))
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, e := range entries {
		link, _ := os.Readlink(k.path(pid, "fd/"+e.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var all []netip.AddrPort
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, err := os.ReadFile(k.path(pid, table))
		if err != nil {
			continue // no IPv6, say
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			const listen = "0A"
			if len(f) < 10 || f[3] != listen || !own[f[9]] {
				continue
			}
			at, ok := parseSocket(f[1])
			if at.Addr().IsUnspecified() && !onlyLoopback { // all of the machine's
				at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
			}
			if ok && at.Addr().IsLoopback() && !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	slices.SortFunc(all, func(a, b netip.AddrPort) int { return int(a.Port()) - int(b.Port()) })
	var out []string
	for _, at := range all {
		out = append(out, at.String())
	}
	return out, nil
}

// parseSocket reads an address as /proc/net/tcp has it: words of 32 bits in the order of the
// machine, and the port.
func parseSocket(text string) (netip.AddrPort, bool) {
	words, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), true
}
