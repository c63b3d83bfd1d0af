package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// MemoryGroup is a memory cgroup: its processes, and the pages of files that they were the
// first to read, have a limit together (cgroups(7)). It belongs to one goroutine.
type MemoryGroup struct {
	group
}

// group is a cgroup of some controller.
type group struct {
	dir string
}

// The files with the limit, of cgroups version 1 and 2.
const (
	limitFileV1 = "memory.limit_in_bytes"
	limitFileV2 = "memory.max"
)

// NewMemoryGroup makes a group with a limit in bytes: below the caller's own, or else at the
// top of the hierarchy. The error says why there can be none.
func NewMemoryGroup(limit int64) (*MemoryGroup, error) {
	g, err := newGroup("memory", func(dir string) (err error) {
		for _, file := range []string{limitFileV1, limitFileV2} {
			err = os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(limit, 10)), 0)
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				break
			}
		}
		return err
	})
	return &MemoryGroup{g}, err
}

// newGroup makes a group of a controller, in the first folder where that can be limited.
func newGroup(controller string, limit func(dir string) error) (group, error) {
	parents, err := parentsFor(controller)
	if err != nil {
		return group{}, err
	}
	var failed []error
	for _, parent := range parents {
		dir, err := os.MkdirTemp(parent, "capriccio-bench-")
		if err == nil {
			if err = limit(dir); err == nil {
				return group{dir}, nil
			}
			err = errors.Join(fmt.Errorf("%s can't be limited: %w", dir, err), os.Remove(dir))
		}
		failed = append(failed, err)
	}
	return group{}, fmt.Errorf("no %s cgroup to be had: %w", controller, errors.Join(failed...))
}

// parentsFor are the folders in which a group of a controller may be made, at least one.
func parentsFor(controller string) ([]string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("no cgroups: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	parents := groupParents(string(own), string(mounts), controller)
	if len(parents) == 0 {
		return nil, fmt.Errorf("no %s cgroups are mounted", controller)
	}
	return parents, nil
}

// groupParents are the folders in which a group may be made, the best first, out of
// /proc/self/cgroup and /proc/self/mounts.
func groupParents(own, mounts, controller string) []string {
	paths := map[string]string{} // the controller, or "" for version 2
	for line := range strings.Lines(own) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for _, controller := range strings.Split(f[1], ",") {
				paths[controller] = f[2]
			}
		}
	}
	var parents []string
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		path, known := paths[controller]
		switch {
		case f[2] == "cgroup" && strings.Contains(","+f[3]+",", ","+controller+","):
		case f[2] == "cgroup2" && !known:
			// Version 2 gives memory and the like to groups that have no processes of their own.
			path, known = paths[""]
			path = filepath.Dir(path)
		default:
			continue
		}
		if below := filepath.Join(f[1], path); known && below != f[1] {
			parents = append(parents, below)
		}
		parents = append(parents, f[1])
	}
	return parents
}

// Dir is the group's folder.
func (g *group) Dir() string { return g.dir }

// Bytes is what the group uses, files' pages included.
func (g *MemoryGroup) Bytes() (int64, error) {
	return g.read("memory.usage_in_bytes", "memory.current")
}

// Peak is the most that it has used.
func (g *MemoryGroup) Peak() (int64, error) {
	return g.read("memory.max_usage_in_bytes", "memory.peak")
}

// read reads a number from the file of version 1 or that of version 2.
func (g *MemoryGroup) read(v1, v2 string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(g.dir, v1))
	if errors.Is(err, fs.ErrNotExist) {
		data, err = os.ReadFile(filepath.Join(g.dir, v2))
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

// Close removes the group. Its processes must have ended; the kernel may need a moment to
// see that. There is nothing to remove of one that could not be made.
func (g *group) Close() error {
	if g.dir == "" {
		return nil
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
