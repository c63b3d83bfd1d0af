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

// Group is a cgroup (cgroups(7)), of version 1 or 2. It belongs to one goroutine; nil is none.
type Group struct{ dir string }

// NewMemoryGroup makes a group whose processes, and the pages of files that they were the
// first to read, have a limit in bytes together. The error says why there can be none.
func NewMemoryGroup(limit int64) (*Group, error) {
	return newGroup("memory", func(dir string) error {
		text := strconv.FormatInt(limit, 10)
		return writeEither(dir, map[string]string{"memory.limit_in_bytes": text}, map[string]string{"memory.max": text})
	})
}

// quotaPeriod is the kernel's default, which container runtimes take.
const quotaPeriod = 100 * time.Millisecond

// NewCPUGroup makes a group whose processes may use a share, in (0,1], of one processor together: then
// they are stopped until the next period begins.
func NewCPUGroup(share float64) (*Group, error) {
	return newGroup("cpu", func(dir string) error {
		period := strconv.FormatInt(quotaPeriod.Microseconds(), 10)
		quota := strconv.FormatInt(int64(share*float64(quotaPeriod.Microseconds())), 10)
		return writeEither(dir, map[string]string{"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota},
			map[string]string{"cpu.max": quota + " " + period})
	})
}

// writeEither writes the files of version 1, or, where there are none, those of version 2.
func writeEither(dir string, v1, v2 map[string]string) (err error) {
	for _, files := range []map[string]string{v1, v2} {
		for name, text := range files {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				break
			}
			if err != nil {
				return err
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// newGroup makes a group of a controller below the caller's own or else at the top of the hierarchy, in the first
// folder where that can be limited.
func newGroup(controller string, limit func(dir string) error) (*Group, error) {
	parents, err := parentsFor(controller)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, parent := range parents {
		dir, err := os.MkdirTemp(parent, "capriccio-bench-")
		if err == nil {
			if err = limit(dir); err == nil {
				return &Group{dir}, nil
			}
			err = errors.Join(fmt.Errorf("%s can't be limited: %w", dir, err), os.Remove(dir))
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("no %s cgroup to be had: %w", controller, errors.Join(failed...))
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

// Bytes is what a memory group uses, files' pages included.
func (g *Group) Bytes() (int64, error) { return g.read("memory.usage_in_bytes", "memory.current") }

// Peak is the most that it has used.
func (g *Group) Peak() (int64, error) { return g.read("memory.max_usage_in_bytes", "memory.peak") }

// read reads a number from the file of version 1 or that of version 2.
func (g *Group) read(v1, v2 string) (int64, error) {
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
// see that.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// CanHave is the error of making a group, if any; the group is closed.
func CanHave(g *Group, err error) error {
	if err != nil {
		return err
	}
	return g.Close()
}
