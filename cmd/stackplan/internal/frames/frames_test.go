package frames

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// built are binaries that tests share.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "frames"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// build compiles the program in testdata, once, and returns the path of the binary.
func build(t testing.TB, goarch string, flags ...string) string {
	t.Helper()
	out := filepath.Join(built, goarch+strings.Join(flags, ""))
	if _, err := os.Stat(out); err != nil {
		run(t, goarch, append(append([]string{"build", "-o", out}, flags...), "testdata/frames/main.go")...)
	}
	return out
}

// architectures are those whose code can be read. That of others needs a library of their own.
func architectures() []string {
	if testenv.Full() {
		return []string{"amd64", "arm64"}
	}
	return []string{"amd64"}
}

// run runs the go command and returns what it writes.
func run(t testing.TB, goarch string, args ...string) string {
	t.Helper()
	return testenv.Run(t, "", []string{"GOARCH=" + goarch, "GOOS=linux", "CGO_ENABLED=0"}, "go", args...)
}

func open(t testing.TB, path string) *Binary {
	t.Helper()
	b := testenv.Need(Open(path))(t)
	return b
}

// named are the indexes of the functions with a name; ABI wrappers and clones share one.
func (b *Binary) named(name string) (all []int) {
	for i := range b.Funcs {
		if b.Funcs[i].Name == name {
			all = append(all, i)
		}
	}
	return all
}

func (b *Binary) one(t testing.TB, name string) *Func {
	t.Helper()
	ids := b.named(name)
	testenv.MustEqual(t, len(ids), 1, "functions are named %s", name)
	return &b.Funcs[ids[0]]
}

// The compiler says with -S how large the local part of each frame is.
func TestFrameSizesAreTheCompilers(t *testing.T) {
	stext := regexp.MustCompile(`(?m)^(main\.\S+) STEXT .*locals=0x([0-9a-f]+)`)
	for _, goarch := range architectures() {
		b := open(t, build(t, goarch))
		testenv.Equal(t, b.Arch, goarch, "Arch")
		checked := 0
		for _, m := range stext.FindAllStringSubmatch(run(t, goarch, "build", "-gcflags=-S", "-o", os.DevNull, "testdata/frames/main.go"), -1) {
			locals := testenv.Need(strconv.ParseInt(m[2], 16, 32))(t)
			if len(b.named(m[1])) == 0 {
				continue // inlined everywhere
			}
			f := b.one(t, m[1])
			// arm64 stores the return address besides, and aligns to 16.
			least, most := int(locals), int(locals)
			if goarch == "arm64" {
				least, most = least+8, most+16
			}
			if locals == 0 {
				least = 0
			}
			if f.Frame < least || f.Frame > most {
				t.Errorf("%s: %s takes %d bytes, want %d to %d", goarch, f.Name, f.Frame, least, most)
			}
			checked++
		}
		testenv.AtLeast(t, checked, 8, "%s: N functions compared", goarch)
	}
}

// go tool objdump decodes every instruction.
func TestCallsAreThoseOfTheDisassembler(t *testing.T) {
	testenv.NeedsFull(t, "the go command builds objdump")
	for _, goarch := range architectures() {
		path := build(t, goarch)
		b := open(t, path)
		want := make(map[string]map[string]bool)
		function := ""
		text := regexp.MustCompile(`^TEXT (.+)\(SB\)`)
		call := regexp.MustCompile(`\t(?:CALL|JMP|BL|B) (.+)\(SB\)`)
		for line := range strings.Lines(run(t, goarch, "tool", "objdump", "-s", `^(main|sort|strconv|internal/poll|os)\.`, path)) {
			if m := text.FindStringSubmatch(line); m != nil {
				function = plainName(m[1])
				if want[function] == nil {
					want[function] = make(map[string]bool)
				}
			} else if m := call.FindStringSubmatch(line); m != nil {
				if to := plainName(m[1]); to != function || strings.Contains(line, "CALL") || strings.Contains(line, "\tBL ") {
					want[function][to] = true
				}
			}
		}
		got := make(map[string]map[string]bool)
		for i := range b.Funcs {
			f := &b.Funcs[i]
			if got[f.Name] == nil {
				got[f.Name] = make(map[string]bool)
			}
			for _, c := range f.Calls {
				got[f.Name][b.Funcs[c.Target].Name] = true
			}
		}
		testenv.AtLeast(t, len(want), 30, "%s: N functions compared", goarch)
		for name, calls := range want {
			testenv.Equal(t, list(got[name]), list(calls), "%s: %s calls", goarch, name)
		}
	}
}

// plainName is the name without the suffixes that only the symbol table has.
func plainName(name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".abi0"), ".abiinternal")
	// A jump into duffzero has an offset.
	name, _, _ = strings.Cut(name, "+")
	return name
}

func list(set map[string]bool) string {
	var all []string
	for name := range set {
		all = append(all, name)
	}
	sort.Strings(all)
	return strings.Join(all, " ")
}

func TestPlaces(t *testing.T) {
	b := open(t, build(t, "amd64"))
	holds := b.one(t, "main.holds")
	if holds.StartLine != 41 || filepath.Base(holds.File) != "main.go" || holds.Asm {
		t.Errorf("main.holds is at %s:%d (assembly: %v), want main.go:41", holds.File, holds.StartLine, holds.Asm)
	}
	if len(holds.Inlined) != 1 || holds.Inlined[0].Name != "main.inlined" || holds.Inlined[0].StartLine != 38 {
		t.Errorf("main.holds has inlined %v, want main.inlined of line 38", holds.Inlined)
	}
	for _, c := range holds.Calls {
		if b.Funcs[c.Target].Name == "main.large" {
			if c.In != 0 || c.Line != 38 || c.Depth != holds.Frame+8 {
				t.Errorf("the call of main.large is %+v, want one of line 38 in Inlined[0] at depth %d", c, holds.Frame+8)
			}
			return
		}
	}
	t.Error("main.holds does not call main.large")
}

func TestAssembly(t *testing.T) {
	b := open(t, build(t, "amd64"))
	for _, id := range b.named("runtime.gogo") {
		if f := b.Funcs[id]; !f.Asm || !strings.HasSuffix(f.File, "asm_amd64.s") {
			t.Errorf("runtime.gogo is %+v, want assembly", f)
		}
	}
}

func TestNoGoProgram(t *testing.T) {
	testenv.ErrorIs(t, testenv.Err(Read(bytes.NewReader([]byte("#!/bin/sh\necho no\n")))), ErrNotGo, "a script")
	if _, err := Open(build(t, "amd64", "-ldflags=-s")); err == nil || !strings.Contains(err.Error(), "-s") {
		t.Errorf("a stripped program: %v, want an error that names -s", err)
	}
	foreign := testenv.Need(os.ReadFile(build(t, "amd64")))(t)
	binary.LittleEndian.PutUint16(foreign[18:], uint16(elf.EM_RISCV))
	if _, err := Read(bytes.NewReader(foreign)); err == nil || !strings.Contains(err.Error(), "amd64") {
		t.Errorf("a program for RISC-V: %v, want an error that lists what is supported", err)
	}
}

// pclntab is where the table of functions is in the file.
func pclntab(t testing.TB, data []byte) (at, size uint64) {
	t.Helper()
	f := testenv.Need(elf.NewFile(bytes.NewReader(data)))(t)
	s := f.Section(".gopclntab")
	if s == nil {
		t.Fatal("no .gopclntab")
	}
	return s.Offset, s.Size
}

func TestDamagedTables(t *testing.T) {
	data := testenv.Need(os.ReadFile(build(t, "amd64")))(t)
	at, _ := pclntab(t, data)
	set := func(off, value uint64) []byte {
		bad := bytes.Clone(data)
		binary.LittleEndian.PutUint64(bad[at+off:], value)
		return bad
	}
	for name, bad := range map[string][]byte{
		"magic":             set(0, 0xfffffffb),
		"function count":    set(8, 1<<40),
		"names":             set(8+3*8, 1<<50),
		"function table":    set(8+7*8, 1<<63),
		"cut in the header": data[:at+16],
		"cut in the middle": data[:len(data)/3],
	} {
		testenv.Fails(t, testenv.Err(Read(bytes.NewReader(bad))), "%s: no error", name)
	}
}

// FuzzRead changes bytes of a binary, those of the table of functions above all.
func FuzzRead(f *testing.F) {
	data := testenv.Need(os.ReadFile(build(f, "amd64")))(f)
	at, size := pclntab(f, data)
	f.Add(uint32(0), []byte{1, 2, 3, 4}, false)
	f.Add(uint32(8), []byte{255, 255, 255, 255, 255, 255, 255, 255}, false)
	f.Add(uint32(size/2), bytes.Repeat([]byte{0xff}, 64), false)
	f.Add(uint32(size-100), bytes.Repeat([]byte{0x80}, 64), false)
	f.Add(uint32(40), []byte{0, 0, 0, 0, 0, 0, 0, 1}, true)
	f.Fuzz(func(t *testing.T, off uint32, patch []byte, header bool) {
		bad := bytes.Clone(data)
		to := bad[at : at+size]
		if header {
			to = bad[:4096]
		}
		copy(to[int(off)%len(to):], patch)
		b, err := Read(bytes.NewReader(bad))
		if err != nil {
			if strings.Contains(err.Error(), "runtime error") && !header {
				t.Fatalf("a panic was caught: %v", err)
			}
			return
		}
		for i := range b.Funcs {
			if fn := &b.Funcs[i]; fn.End < fn.Entry || fn.Frame < 0 {
				t.Fatalf("%+v", fn)
			}
		}
	})
}
