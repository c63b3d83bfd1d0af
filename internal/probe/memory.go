//go:build linux

package probe

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A memoryReader reads the memory of the container that limits the process most, or of
// the machine.
type memoryReader struct {
	container float64 // the least limit of a group, as last read; +Inf: none

	pressure []string // where this container's pressure may be read
	groups   []group  // from the process's own to the root of what can be seen

	most float64       // the least of all limits, as last read
	due  time.Duration // until then nothing can be half full, see rest
}

// A group is a cgroup with a memory controller.
type group struct {
	limits []string // names of sources; the least holds
	usage  string
	stat   string
	cache  string // word in stat for file pages that are easily dropped
}

// maxDepth is how many nested groups are looked at.
const maxDepth = 16

// find looks for the groups that the process is in. There may be none. In a container only the innermost is seen, which
// is enough.
func (m *memoryReader) find(p *Probe) {
	p.open("meminfo", "proc/meminfo")
	dir, version, err := p.findGroup()
	if err != nil {
		p.cfg.Report("cgroup", err)
		return
	}
	for depth := range maxDepth {
		name := func(s string) string { return fmt.Sprintf("cgroup %d %s", depth, s) }
		g := group{usage: name("usage"), stat: name("stat"), cache: "inactive_file"}
		files := []string{"memory.max", "memory.high"}
		usage := "memory.current"
		if version == 1 {
			files, usage, g.cache = []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"
		} else if depth == 0 {
			m.pressure = append(m.pressure, path.Join(dir.at(), "memory.pressure"))
		}
		for _, f := range files {
			// The root of version 2 has no such files.
			if file := path.Join(dir.at(), f); p.exists(file) && p.open(name(f), file) {
				g.limits = append(g.limits, name(f))
			}
		}
		if file := path.Join(dir.at(), usage); len(g.limits) > 0 && p.open(g.usage, file) {
			p.open(g.stat, path.Join(dir.at(), "memory.stat"))
			m.groups = append(m.groups, g)
		}
		if !dir.up() {
			return
		}
	}
}

func (p *Probe) exists(file string) bool {
	_, err := os.Stat(filepath.Join(p.cfg.Root, file))
	return err == nil
}

// A groupDir is a folder of a cgroup hierarchy.
type groupDir struct{ point, rest string }

func (d *groupDir) at() string { return path.Join(d.point, d.rest) }

func (d *groupDir) up() bool {
	if d.rest == "/" {
		return false
	}
	d.rest = path.Dir(d.rest)
	return true
}

// findGroup returns the folder of the group that accounts for the process's memory. In a
// hybrid hierarchy the memory controller is with version 1.
func (p *Probe) findGroup() (dir *groupDir, version int, err error) {
	text, err := os.ReadFile(filepath.Join(p.cfg.Root, "proc/self/cgroup"))
	if err != nil {
		return nil, 0, err
	}
	memberships, err := parseMemberships(text)
	if err != nil {
		return nil, 0, fmt.Errorf("/proc/self/cgroup: %w", err)
	}
	text, err = os.ReadFile(filepath.Join(p.cfg.Root, "proc/self/mountinfo"))
	if err != nil {
		return nil, 0, err
	}
	mounts := parseMounts(text)
	for _, version := range []int{1, 2} {
		kind, isMine := "cgroup2", func(m membership) bool { return m.controllers == "" }
		hasMemory := func(string) bool { return true }
		if version == 1 {
			kind = "cgroup"
			hasMemory = func(options string) bool { return slices.Contains(strings.Split(options, ","), "memory") }
			isMine = func(m membership) bool { return hasMemory(m.controllers) }
		}
		i := slices.IndexFunc(memberships, isMine)
		j := slices.IndexFunc(mounts, func(m mount) bool { return m.kind == kind && hasMemory(m.options) })
		if i >= 0 && j >= 0 {
			return p.within(mounts[j], memberships[i].path), version, nil
		}
	}
	return nil, 0, errors.New("no cgroup with a memory controller is mounted")
}

// within returns where a group's folder is under a mount. In a container the path may
// be one that only the host knows: then the container sees its own group as the root.
func (p *Probe) within(m mount, group string) *groupDir {
	rest := group
	if m.root != "/" {
		if cut, found := strings.CutPrefix(group, m.root); found && (cut == "" || cut[0] == '/') {
			rest = cut
		}
	}
	rest = path.Join("/", rest)
	if !p.exists(path.Join(m.point, rest)) {
		rest = "/"
	}
	return &groupDir{m.point, rest}
}

// The memory that a limit leaves below half of it takes a while to fill: fillRate, in bytes a
// second, is more than programs can touch for the first time. So long it need not be read again, nor
// what it may cause, but for at most longestRest, as limits may change, too.
const (
	fillRate    = 32 << 30
	longestRest = 100 * time.Millisecond
)

// rest is how long it takes at least until half of the limit is used.
func rest(used, limit float64) time.Duration {
	return time.Duration(min(max(limit/2-used, 0)/fillRate, longestRest.Seconds()) * float64(time.Second))
}

// read adds Memory, and keeps the least of all limits.
func (m *memoryReader) read(p *Probe, now time.Duration) {
	m.most = math.Inf(1)
	fullest := Reading{Name: Memory}
	shortest := longestRest
	consider := func(used, limit float64) {
		m.most = min(m.most, limit)
		shortest = min(shortest, rest(used, limit))
		if !math.IsInf(limit, 1) && limit > 0 && (fullest.Limit == 0 || used/limit > fullest.Value/fullest.Limit) {
			fullest.Value, fullest.Limit = used, limit
		}
	}
	total := 0.0
	available, ok := p.number("meminfo", func(text []byte) (v float64, err error) {
		if total, err = parseField(text, "MemTotal:"); err == nil {
			v, err = parseField(text, "MemAvailable:") // what can be had without swapping
		}
		return v, err
	})
	if ok {
		consider(max(total-available, 0)*1024, total*1024)
	}
	m.container = math.Inf(1)
	for _, g := range m.groups {
		limit := math.Inf(1)
		for _, name := range g.limits {
			if v, ok := p.number(name, parseLimit); ok {
				limit = min(limit, v)
			}
		}
		if math.IsInf(limit, 1) || limit == 0 {
			continue
		}
		m.container = min(m.container, limit)
		used, ok := p.number(g.usage, parseCount)
		if !ok {
			continue
		}
		cache, _ := p.number(g.stat, func(text []byte) (float64, error) { return parseField(text, g.cache) })
		consider(max(used-cache, 0), limit)
	}
	if total > 0 && m.container >= total*1024 {
		m.container = math.Inf(1) // version 1 says "none" by a very large number
	}
	m.due = now
	if fullest.Limit > 0 {
		p.add(fullest)
		m.due += shortest
	}
}
