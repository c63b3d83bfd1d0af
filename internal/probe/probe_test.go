package probe

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A tree is what a machine's /proc and /sys look like.
type tree map[string]string

// with returns the tree with some files changed, or left out if their text is "-".
func (tr tree) with(changes tree) tree {
	out := maps.Clone(tr)
	for file, text := range changes {
		if out[file] = text; text == "-" {
			delete(out, file)
		}
	}
	return out
}

func (tr tree) write(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for file, text := range tr {
		put(t, root, file, text)
	}
	return root
}

func put(t *testing.T, root, file, text string) {
	t.Helper()
	path := filepath.Join(root, file)
	testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testenv.Must(t, os.WriteFile(path, []byte(text), 0o644))
}

const gib = 1 << 30

func stat(faults int) string {
	return fmt.Sprintf("42 (a (b) c) S 1 42 42 0 -1 4194304 1000 0 %d 0 10 5 0 0 20 0 1 0 100", faults)
}

// machine has 16 GiB, of which 8 can be had, and no cgroups.
var machine = tree{
	"proc/meminfo":         "MemTotal:       16777216 kB\nMemFree:          100000 kB\nMemAvailable:    8388608 kB\n",
	"proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"proc/self/stat":       stat(7),
	"proc/self/cgroup":     "0::/\n",
	"proc/self/mountinfo":  "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
}

// version2 is a container in a group of its own, which it may use 1 GiB in, inside of one
// for 8 GiB.
var version2 = machine.with(tree{
	"proc/self/cgroup":                      "0::/pod/app\n",
	"proc/self/mountinfo":                   "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
	"sys/fs/cgroup/pod/app/memory.max":      "1073741824\n",
	"sys/fs/cgroup/pod/app/memory.high":     "max\n",
	"sys/fs/cgroup/pod/app/memory.current":  "900000000\n",
	"sys/fs/cgroup/pod/app/memory.stat":     "anon 500\nfile 300\ninactive_file 100000000\n",
	"sys/fs/cgroup/pod/app/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=5000000\n",
	"sys/fs/cgroup/pod/memory.max":          "8589934592\n",
	"sys/fs/cgroup/pod/memory.high":         "max\n",
	"sys/fs/cgroup/pod/memory.current":      "1000000000\n",
	"sys/fs/cgroup/pod/memory.stat":         "inactive_file 0\n",
})

// version1 has a mount for each controller.
var version1 = machine.with(tree{
	"proc/self/cgroup":                               "5:devices:/x\n4:memory,hugetlb:/app\n1:cpu:/\n",
	"proc/self/mountinfo":                            "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory,hugetlb\n",
	"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "2147483648\n",
	"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "1600000000\n",
	"sys/fs/cgroup/memory/app/memory.stat":           "cache 1\ninactive_file 7\ntotal_inactive_file 100000000\n",
	"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
	"sys/fs/cgroup/memory/memory.usage_in_bytes":     "99999999999\n",
	"sys/fs/cgroup/memory/memory.stat":               "total_inactive_file 0\n",
})

// hybrid is version 1 with an empty version 2 beside it, as older systemd makes it.
var hybrid = version1.with(tree{
	"proc/self/cgroup":                              version1["proc/self/cgroup"] + "0::/user.slice\n",
	"proc/self/mountinfo":                           version1["proc/self/mountinfo"] + "36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
	"sys/fs/cgroup/unified/user.slice/cgroup.procs": "42\n",
})

// newProbe looks at a tree, with a runtime that has no limit.
func newProbe(t *testing.T, root string, change func(*Config)) (p *Probe, reports *[]string) {
	t.Helper()
	reports = new([]string)
	cfg := Config{
		Root:    root,
		Report:  func(source string, err error) { *reports = append(*reports, fmt.Sprint(source, ": ", err)) },
		Runtime: func() Runtime { return Runtime{MemoryLimit: math.MaxInt64, Percent: 100} },
	}
	if change != nil {
		change(&cfg)
	}
	p = New(cfg)
	t.Cleanup(p.Close)
	return p, reports
}

func find(readings []Reading, name string) (r Reading, found bool) {
	i := slices.IndexFunc(readings, func(r Reading) bool { return r.Name == name })
	if i < 0 {
		return r, false
	}
	return readings[i], true
}

func TestMemoryOfEveryHierarchy(t *testing.T) {
	hostPath := version2.with(tree{ // a container that does not know the names of its groups
		"proc/self/cgroup":                 "0::/../../pod/app\n",
		"sys/fs/cgroup/memory.max":         "536870912\n",
		"sys/fs/cgroup/memory.high":        "max\n",
		"sys/fs/cgroup/memory.stat":        "inactive_file 0\n",
		"sys/fs/cgroup/memory.current":     "400000000\n",
		"sys/fs/cgroup/pod/app/memory.max": "-", "sys/fs/cgroup/pod/memory.max": "-",
	})
	docker := version1.with(tree{ // whose folder is mounted as the root
		"proc/self/cgroup":                           "4:memory:/docker/0123\n",
		"proc/self/mountinfo":                        "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		"sys/fs/cgroup/memory/memory.usage_in_bytes": "200000000\n",
	})
	spaces := version2.with(tree{
		"proc/self/mountinfo":          `30 22 0:26 / /my\040groups rw - cgroup2 cgroup2 rw` + "\n",
		"my groups/pod/app/memory.max": "67108864\n", "my groups/pod/app/memory.current": "1\n",
	})
	withoutMax := version2.with(tree{"sys/fs/cgroup/pod/app/memory.max": "max\n", "sys/fs/cgroup/pod/memory.max": "max\n"})
	small := tree{"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "300000000\n"}
	for _, c := range []struct {
		name        string
		tree        tree
		used, limit float64 // of what is fullest
		container   float64 // 0: none
		most        int64   // that MemoryLimit says
	}{
		{"no cgroup", machine, 8 * gib, 16 * gib, 0, 16 * gib},
		{"version 2", version2, 800000000, gib, gib, gib},
		{"version 2, outer group fuller", version2.with(tree{"sys/fs/cgroup/pod/memory.current": "8500000000\n"}), 8500000000, 8 * gib, gib, gib},
		{"version 2, outer group less", version2.with(tree{"sys/fs/cgroup/pod/memory.max": "500000000\n"}), 1000000000, 500000000, 500000000, 500_000_000},
		{"version 2, outer group only", version2.with(tree{"sys/fs/cgroup/pod/app/memory.max": "max\n"}), 8 * gib, 16 * gib, 8 * gib, 8 * gib},
		{"version 2, high", version2.with(tree{"sys/fs/cgroup/pod/app/memory.high": "999000000\n"}), 800000000, 999000000, 999000000, 999_000_000},
		{"version 2, max", withoutMax, 8 * gib, 16 * gib, 0, 16 * gib},
		{"more than the machine has", withoutMax.with(tree{"sys/fs/cgroup/pod/memory.max": "17179869184\n"}), 8 * gib, 16 * gib, 0, 16 * gib},
		{"version 2, no stat", version2.with(tree{"sys/fs/cgroup/pod/app/memory.stat": "-"}), 900000000, gib, gib, gib},
		{"version 1", version1, 1500000000, 2 * gib, 2 * gib, 2 * gib},
		{"version 1, full", version1.with(tree{"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "2000000000\n"}), 1900000000, 2 * gib, 2 * gib, 2 * gib},
		{"version 1, small", version1.with(small), 1500000000, 300000000, 300000000, 300_000_000},
		{"version 1, none", version1.with(tree{"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "9223372036854771712\n"}), 8 * gib, 16 * gib, 0, 16 * gib},
		{"hybrid", hybrid.with(tree{"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "2000000000\n"}), 1900000000, 2 * gib, 2 * gib, 2 * gib},
		{"path of the host", hostPath, 400000000, 512 << 20, 512 << 20, 512 << 20},
		{"path of the host, full", hostPath.with(tree{"sys/fs/cgroup/memory.current": "500000000\n"}), 500000000, 512 << 20, 512 << 20, 512 << 20},
		{"docker", docker.with(tree{"sys/fs/cgroup/memory/memory.usage_in_bytes": "260000000\n"}), 260000000, 256 << 20, 256 << 20, 256 << 20},
		{"mounted elsewhere", spaces.with(tree{"my groups/pod/app/memory.current": "67000000\n"}), 67000000, 64 << 20, 64 << 20, 64 << 20},
		{"limit of 0", version2.with(tree{"sys/fs/cgroup/pod/app/memory.max": "0\n"}), 8 * gib, 16 * gib, 8 * gib, 8 * gib},
	} {
		p, _ := newProbe(t, c.tree.write(t), nil)
		got, found := find(p.Read(0), Memory)
		if !found || got.Value != c.used || got.Limit != c.limit || got.Sign {
			t.Errorf("%s: %+v, %v; want %.0f of %.0f", c.name, got, found, c.used, c.limit)
		}
		testenv.Equal(t, p.ContainerLimit(), c.container, "%s: limit of the container", c.name)
		testenv.Equal(t, MemoryLimit(p.cfg), c.most, "%s: limit on memory", c.name)
	}
}

// GOMEMLIMIT counts, too, where it is less.
func TestMemoryLimitOfTheRuntime(t *testing.T) {
	silent := tree{"proc/self/cgroup": "0::/\n"}
	for _, c := range []struct {
		name  string
		tree  tree
		limit float64
		want  int64
	}{
		{"less than the container", version2, 1 << 20, 1 << 20},
		{"nothing else says", silent, 1 << 20, 1 << 20},
		{"nor does it", silent, math.MaxInt64, 0},
	} {
		got := MemoryLimit(Config{Root: c.tree.write(t), Runtime: func() Runtime { return Runtime{MemoryLimit: c.limit, Percent: 100} }})
		testenv.Equal(t, got, c.want, c.name)
	}
	testenv.AtLeast(t, MemoryLimit(Config{}), 1, "bytes that this machine has")
}

func TestContainersPressureIsPreferred(t *testing.T) {
	root := version2.write(t)
	p, reports := newProbe(t, root, nil)
	if _, found := find(p.Read(0), Pressure); found {
		t.Error("a pressure is known before there was any time")
	}
	put(t, root, "sys/fs/cgroup/pod/app/memory.pressure", "some avg10=9.00 avg60=0.00 avg300=0.00 total=5250000\n")
	got, found := find(p.Read(time.Second), Pressure)
	if !found || got.Value != 0.25 || got.Limit != MuchPressure || !got.Sign {
		t.Errorf("%+v, %v; want 0.25", got, found)
	}
	if len(*reports) != 0 {
		t.Errorf("reported %v", *reports)
	}
}

func TestRates(t *testing.T) {
	root := machine.write(t)
	p, _ := newProbe(t, root, nil)
	p.Read(time.Second)
	put(t, root, "proc/self/stat", stat(57))
	got, found := find(p.Read(1500*time.Millisecond), Faults)
	if !found || got.Value != 100 || got.Limit != MuchFaults || !got.Sign {
		t.Errorf("%+v, %v; want 100 per second", got, found)
	}
	put(t, root, "proc/self/stat", stat(58))
	if got, found := find(p.Read(1500*time.Millisecond), Faults); found {
		t.Errorf("%+v after no time at all", got)
	}
	put(t, root, "proc/self/stat", stat(3)) // it cannot become less
	if got, found := find(p.Read(2*time.Second), Faults); found {
		t.Errorf("%+v after the count became less", got)
	}
	put(t, root, "proc/self/stat", stat(4))
	if got, _ := find(p.Read(3*time.Second), Faults); got.Value != 1 {
		t.Errorf("%+v, want 1 per second", got)
	}
}

func TestAddressSpace(t *testing.T) {
	root := machine.with(tree{"proc/self/statm": "1000 200 30 4 0 100 0\n"}).write(t)
	limited := func(limit uint64, err error) func(*Config) {
		return func(c *Config) { c.AddressSpace = func() (uint64, error) { return limit, err } }
	}
	p, _ := newProbe(t, root, limited(gib, nil))
	if got, found := find(p.Read(0), AddressSpace); !found || got.Value != float64(1000*os.Getpagesize()) || got.Limit != gib || got.Sign {
		t.Errorf("%+v, %v; want 1000 pages of 1 GiB", got, found)
	}
	put(t, root, "proc/self/statm", "garbage\n")
	for range 2 {
		if got, found := find(p.Read(0), AddressSpace); found {
			t.Errorf("%+v of garbage, want none", got)
		}
	}
	for _, change := range []func(*Config){limited(math.MaxUint64, nil), limited(0, errors.New("broken"))} {
		p, _ := newProbe(t, root, change)
		if got, found := find(p.Read(0), AddressSpace); found {
			t.Errorf("%+v without a limit, want none", got)
		}
	}
}

// Memory is read again when half of a limit may be used by then, and whenever it is; 100 ms later at the latest.
func TestMemoryIsReadSeldomWhileLittleIsUsed(t *testing.T) {
	const ms = time.Millisecond
	free := func(kib int) tree {
		return tree{"proc/meminfo": fmt.Sprintf("MemTotal: 16777216 kB\nMemAvailable: %d kB\n", kib)}
	}
	small := version2.with(free(16_000_000)).with(tree{"sys/fs/cgroup/pod/app/memory.current": "200000000\n"})
	for _, c := range []struct {
		name  string
		tree  tree
		reads int // in a second
	}{
		{"plenty", machine.with(free(16_000_000)), 10},
		{"half used", machine, 100},
		{"nearly half", machine.with(free(8_400_000)), 100},
		{"a small container", small, 50},
		{"a container that is half full", version2, 100},
		{"nothing known", machine.with(tree{"proc/meminfo": "-"}), 100},
	} {
		p, _ := newProbe(t, c.tree.write(t), nil)
		p.Read(0)
		memory, faults := 0, 0
		for now := 10 * ms; now <= time.Second; now += 10 * ms {
			readings := p.Read(now)
			if _, found := find(readings, Faults); found {
				faults++
			}
			if _, found := find(readings, Memory); found {
				memory++
			}
		}
		if _, known := c.tree["proc/meminfo"]; faults != c.reads || known && memory != c.reads {
			t.Errorf("%s: memory read %d times and faults %d times in a second, want %d", c.name, memory, faults, c.reads)
		}
	}
	// No faster than fillRate: the end of the rest comes before the half.
	if d := rest(gib, 8*gib); d <= 0 || gib+d.Seconds()*fillRate > 4*gib+1 {
		t.Errorf("with 1 of 8 GiB nothing is read for %v", d)
	}
}

// Every file in turn is missing, empty, or full of garbage, from the beginning or from
// some time on: nothing fails, what is broken is reported once and left out, and the
// rest is read.
func TestBrokenFiles(t *testing.T) {
	texts := []string{"-", "", "\n", "garbage", "-5\n", "1e9\n", "\x00\xff\xfe", "12345678901234567890123\n", "some total=x\n", "0::\n", strings.Repeat("long ", 5000)}
	if testing.Short() {
		texts = texts[:4]
	}
	for name, whole := range map[string]tree{"version 2": version2, "hybrid": hybrid} {
		root := whole.write(t)
		for file, good := range whole {
			for _, text := range texts {
				for _, later := range []bool{false, true} {
					spoil := func() {
						if text != "-" {
							put(t, root, file, text)
						} else if err := os.Remove(filepath.Join(root, file)); err != nil {
							t.Fatal(err)
						}
					}
					if !later {
						spoil()
					}
					p, reports := newProbe(t, root, nil)
					p.Read(0)
					if later {
						spoil()
					}
					for i := range 3 {
						for _, r := range p.Read(time.Duration(i+1) * time.Second) {
							if math.IsNaN(r.Value) || r.Value < 0 || !(r.Limit > 0) || math.IsInf(r.Value, 0) || math.IsInf(r.Limit, 0) {
								t.Errorf("%s, %s is %.20q: %+v", name, file, text, r)
							}
						}
					}
					seen := map[string]bool{}
					for _, r := range *reports {
						source, _, _ := strings.Cut(r, ":")
						if seen[source] {
							t.Errorf("%s, %s is %.20q: reported more than once: %v", name, file, text, *reports)
						}
						seen[source] = true
					}
					p.Close()
					put(t, root, file, good)
				}
			}
		}
	}
}

func TestNothingAtAll(t *testing.T) {
	p, reports := newProbe(t, t.TempDir(), nil)
	for i := range 3 {
		if got := p.Read(time.Duration(i) * time.Second); len(got) != 0 {
			t.Errorf("read %v from an empty machine", got)
		}
	}
	for _, want := range []string{"meminfo", "cgroup", Pressure, Faults} {
		if !slices.ContainsFunc(*reports, func(r string) bool { return strings.HasPrefix(r, want+":") }) {
			t.Errorf("no report of %s in %v", want, *reports)
		}
	}
}

// On the machine that the tests run on, whatever that is.
func TestThisMachine(t *testing.T) {
	p := New(Config{Report: func(source string, err error) { t.Log("left out:", source, err) }})
	defer p.Close()
	p.Read(0)
	for _, r := range p.Read(time.Second) {
		t.Logf("%+v", r)
		if !(r.Limit > 0) || !(r.Value >= 0) || !r.Sign && r.Value > 1.1*r.Limit {
			t.Errorf("%+v", r)
		}
	}
	testenv.AtMost(t, testing.AllocsPerRun(100, func() { p.Read(2 * time.Second) }), 40, "allocations for a Read")
}

func FuzzParse(f *testing.F) {
	for _, whole := range []tree{machine, version1, version2} {
		for _, text := range whole {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, parse := range map[string]func([]byte) (float64, error){
			"count": parseCount, "limit": parseLimit, "pressure": parsePressure, "faults": parseMajorFaults,
			"field": func(text []byte) (float64, error) { return parseField(text, "inactive_file") },
		} {
			if v, err := parse(text); err == nil && (math.IsNaN(v) || v < 0) {
				t.Errorf("%s: %v from %q", name, v, text)
			}
		}
		if all, err := parseMemberships(text); err == nil && len(all) == 0 {
			t.Error("no memberships and no error")
		}
		parseMounts(text)
	})
}

func BenchmarkRead(b *testing.B) {
	p := New(Config{})
	defer p.Close()
	now := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 10 * time.Millisecond
		p.Read(now)
	}
}
