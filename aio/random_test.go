//go:build linux

package aio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

// testSeed is AIO_SEED, or another one every time.
func testSeed(t testing.TB) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("AIO_SEED"); s != "" {
		v := need(strconv.ParseUint(s, 10, 64))(t)
		seed = v
	}
	t.Logf("AIO_SEED=%d", seed)
	return seed
}

// A pair is the same file twice: ours, and that of package os, which is the oracle.
type pair struct {
	t          testing.TB
	rnd        *rand.Rand
	ours       *File
	oracle     *os.File
	appends    bool
	oursName   string
	oracleName string
	steps      []string
}

func newPair(t testing.TB, dir string, seed uint64) *pair {
	p := &pair{t: t, rnd: rand.New(rand.NewPCG(seed, 3)), oursName: filepath.Join(dir, "ours"), oracleName: filepath.Join(dir, "oracle")}
	p.open()
	return p
}

func (p *pair) open() {
	flag := os.O_RDWR | os.O_CREATE
	if p.appends = p.rnd.IntN(4) == 0; p.appends {
		flag |= os.O_APPEND
	}
	if p.rnd.IntN(8) == 0 {
		flag |= os.O_TRUNC
	}
	p.ours = need(OpenFile(p.oursName, flag, 0o600))(p.t)
	p.oracle = need(os.OpenFile(p.oracleName, flag, 0o600))(p.t)
	p.steps = append(p.steps, fmt.Sprintf("open %x", flag))
}

func (p *pair) close() {
	must(p.t, p.ours.Close())
	must(p.t, p.oracle.Close())
}

// same compares what an operation has returned.
func (p *pair) same(what string, n, wantN int64, err, wantErr error, got, want []byte) {
	p.steps = append(p.steps, what)
	if n != wantN || cause(err) != cause(wantErr) || !bytes.Equal(got, want) {
		tail := p.steps[max(0, len(p.steps)-12):]
		p.t.Errorf("%s: %d, %v; want %d, %v; content equal: %v; steps %q", what, n, err, wantN, wantErr, bytes.Equal(got, want), tail)
		panic("different")
	}
}

// cause makes errors comparable.
func cause(err error) string {
	var e syscall.Errno
	switch {
	case err == nil:
		return ""
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return err.Error()
	case errors.As(err, &e):
		return e.Error()
	case errors.Is(err, fs.ErrClosed):
		return "closed"
	}
	return "other"
}

// step does something at random to both.
func (p *pair) step() {
	const size = 200_000
	a := make([]byte, p.rnd.IntN(20_000))
	b := make([]byte, len(a))
	off := p.rnd.Int64N(size)
	read := func(what string, ours, oracle func([]byte) (int, error)) {
		n, err := ours(a)
		m, want := oracle(b)
		p.same(fmt.Sprintf("%s: read %d at %d", what, len(a), off), int64(n), int64(m), err, want, a, b)
	}
	write := func(what string, ours, oracle func([]byte) (int, error)) {
		p.fill(a)
		n, err := ours(a)
		m, want := oracle(a)
		p.same(fmt.Sprintf("%s: write %d at %d", what, len(a), off), int64(n), int64(m), err, want, nil, nil)
	}
	switch p.rnd.IntN(12) {
	case 0, 1:
		read("Read", func(b []byte) (int, error) { return io.ReadFull(p.ours, b) }, func(b []byte) (int, error) { return io.ReadFull(p.oracle, b) })
	case 2, 3:
		read("ReadAt", func(b []byte) (int, error) { return p.ours.ReadAt(b, off) }, func(b []byte) (int, error) { return p.oracle.ReadAt(b, off) })
	case 4, 5:
		write("Write", p.ours.Write, p.oracle.Write)
	case 6, 7:
		write("WriteAt", func(b []byte) (int, error) { return p.ours.WriteAt(b, off) }, func(b []byte) (int, error) { return p.oracle.WriteAt(b, off) })
	case 8:
		whence := p.rnd.IntN(3)
		off -= size / 4
		n, err := p.ours.Seek(off, whence)
		m, want := p.oracle.Seek(off, whence)
		p.same(fmt.Sprintf("seek %d from %d", off, whence), n, m, err, want, nil, nil)
	case 9:
		err := p.ours.Truncate(off)
		p.same(fmt.Sprintf("truncate %d", off), 0, 0, err, p.oracle.Truncate(off), nil, nil)
	case 10:
		p.rarer(a, off)
	case 11:
		if p.rnd.IntN(8) == 0 {
			p.close()
			p.open()
		}
		i, j := need(p.ours.Stat())(p.t), need(p.oracle.Stat())(p.t)
		testenv.Equal(p.t, i.Size(), j.Size(), "size, after %q", p.steps)
		testenv.Equal(p.t, i.Mode(), j.Mode(), "mode")
	}
}

func (p *pair) rarer(a []byte, off int64) {
	switch p.rnd.IntN(3) {
	case 0:
		var x, y bytes.Buffer
		n, err := io.Copy(&x, p.ours)
		m, want := io.Copy(&y, p.oracle)
		p.same("write to", n, m, err, want, x.Bytes(), y.Bytes())
	case 1:
		p.fill(a)
		n, err := p.ours.ReadFrom(bytes.NewReader(a))
		m, want := io.Copy(p.oracle, bytes.NewReader(a))
		p.same("read from", n, m, err, want, nil, nil)
	case 2:
		must(p.t, p.ours.Sync())
	}
}

func (p *pair) fill(b []byte) {
	for i := range b {
		b[i] = byte(p.rnd.Uint32())
	}
}

// compare reads both from start to end.
func (p *pair) compare() {
	got := need(ReadFile(p.oursName))(p.t)
	want := need(os.ReadFile(p.oracleName))(p.t)
	testenv.True(p.t, bytes.Equal(got, want), "in the end the contents differ: %d bytes, want %d", len(got), len(want))
}

// run makes that many random steps, and compares all.
func (p *pair) run(steps int) {
	for range steps {
		p.step()
	}
	p.close()
	p.compare()
}

// unruly is a kernel that interrupts, shortens and refuses one call in three.
func unruly(op opcode, where via, _ int32, n int) (int, syscall.Errno) {
	switch k := rand.IntN(16); {
	case op == opClose: // refused never, and over if it fails
	case k == 0:
		return n, unix.EINTR
	case k == 1 && where != viaThread:
		return n, unix.EAGAIN
	case k == 2 && where == viaRing:
		return n, unix.EOPNOTSUPP
	case k < 5 && n > 1 && (op == opRead || op == opWrite):
		return 1 + rand.IntN(n), 0
	}
	return n, 0
}

// alwaysWaits is a kernel without a page cache that could be asked.
func alwaysWaits(_ opcode, where via, _ int32, n int) (int, syscall.Errno) {
	if where == viaLoop {
		return n, unix.EOPNOTSUPP
	}
	return n, 0
}

func TestRandomOperations(t *testing.T) {
	seed := testSeed(t)
	for _, x := range []struct {
		name         string
		kernel       fault
		pairs, steps int
	}{{"kernel", nil, 6, testenv.Rounds(100, 300)}, {"unruly kernel", unruly, 4, testenv.Rounds(60, 150)}, {"all waits", alwaysWaits, 1, 200}} {
		if testing.Short() {
			x.steps /= 5
		}
		t.Run(x.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T) {
				if x.kernel != nil {
					withFault(t, x.kernel)
				}
				all(t, x.pairs, func(i int) { newPair(t, t.TempDir(), seed+uint64(i)).run(x.steps) })
			})
		})
	}
}
