package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/capriccio-go/capriccio/internal/probe"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// TestCacheIsAThirdOfTheLimit reads the limits that the kernel would show.
func TestCacheIsAThirdOfTheLimit(t *testing.T) {
	machine := map[string]string{"proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"}
	version1 := map[string]string{
		"proc/self/cgroup":                               "4:memory:/app\n",
		"proc/self/mountinfo":                            "35 31 0:32 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
		"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "209715200\n",
		"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "1000\n",
	}
	version2 := map[string]string{
		"proc/self/cgroup":                 "0::/pod/app\n",
		"proc/self/mountinfo":              "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/pod/app/memory.max": "max\n", "sys/fs/cgroup/pod/app/memory.current": "1000\n",
		"sys/fs/cgroup/pod/memory.max": "536870912\n", "sys/fs/cgroup/pod/memory.current": "1000\n",
	}
	for _, c := range []struct {
		name  string
		files []map[string]string
		limit float64 // GOMEMLIMIT
		want  int64
	}{
		{"a machine of 16 GB", []map[string]string{machine}, math.MaxInt64, 1 << 30},
		{"200 MB, version 1", []map[string]string{machine, version1}, math.MaxInt64, 66 << 20},
		{"512 MB, version 2", []map[string]string{machine, version2}, math.MaxInt64, 170 << 20},
		{"GOMEMLIMIT=100MiB", []map[string]string{machine, version2}, 100 << 20, 33 << 20},
		{"GOMEMLIMIT=1MiB", []map[string]string{machine, version2}, 1 << 20, 1 << 20},
		{"no limit is known", nil, math.MaxInt64, knot.DefaultCacheBytes},
	} {
		root := t.TempDir()
		for _, files := range c.files {
			for name, text := range files {
				path := filepath.Join(root, name)
				testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				testenv.Must(t, os.WriteFile(path, []byte(text), 0o644))
			}
		}
		limit := probe.MemoryLimit(probe.Config{Root: root, Runtime: func() probe.Runtime { return probe.Runtime{MemoryLimit: c.limit} }})
		if got := cacheOf(limit); got != c.want {
			t.Errorf("%s: cache of %s, want %s", c.name, byteSize(got), byteSize(c.want))
		}
	}
}

func TestCacheFlag(t *testing.T) {
	for arg, want := range map[string]int64{"": cacheOf(probe.MemoryLimit(probe.Config{})), "-cache=3MB": 3 << 20, "-cache=0": -1} {
		args := []string{"-root", sampleSite}
		if arg != "" {
			args = append(args, arg)
		}
		set, err := parse(args, io.Discard)
		if err != nil || set.files.CacheBytes != want {
			t.Errorf("%q: %v, %v; want %d", arg, set, err, want)
		}
	}
}
