package gotrace

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Whatever is handed on in batches is what was read, however it is asked for.
func TestBatchesLeaveATraceAsItIs(t *testing.T) {
	var all [][]byte
	files := testenv.Need(filepath.Glob("testdata/releases/*.trace"))(t)
	for _, f := range append(files, "testdata/go1.26.trace") {
		data := testenv.Need(os.ReadFile(f))(t)
		all = append(all, data)
	}
	batch := func(length int) []byte {
		return append([]byte{eventBatch, 1, 2, 3, byte(length) | 0x80, byte(length>>7) | 0x80, byte(length >> 14)}, make([]byte, length)...)
	}
	begin := []byte("go 1.26 trace\x00\x00\x00")
	all = append(all, longTrace(), nil, []byte("go"), begin,
		append(bytes.Clone(begin), endOfGeneration, endOfGeneration, eventBatch, 0xff),
		append(bytes.Clone(begin), bytes.Repeat([]byte{eventBatch, 0xff, 0xff, 0xff, 0xff}, 50)...),
		append(bytes.Clone(begin), batch(maxBatch+1)...),
		append(append(bytes.Clone(begin), batch(maxBatch)...), batch(directRead + 1)[:directRead]...))
	for i, data := range all {
		for _, most := range []int{1, 100, 70_000} {
			random := rand.New(rand.NewPCG(1, 2))
			b := &batches{in: bufio.NewReader(bytes.NewReader(data))}
			var got []byte
			for ends := 0; ends < 2; {
				p := make([]byte, 1+random.IntN(most))
				if b.left > directRead && most > maxBatch {
					p = make([]byte, b.left)
				}
				n, err := b.Read(p)
				got = append(got, p[:n]...)
				if n > 0 {
					ends = 0
				}
				if err == io.EOF || err == io.ErrUnexpectedEOF {
					ends++
				} else {
					testenv.Must(t, err)
				}
			}
			if !bytes.Equal(got, data) {
				t.Errorf("trace %d, %d bytes, read up to %d at a time: %d bytes came", i, len(data), most, len(got))
			}
		}
	}
}

// Each batch is in memory once.
func TestMemoryOfATrace(t *testing.T) {
	small, long := smallTrace(), longTrace()
	if small == nil || long == nil {
		t.Skip("no trace can be taken")
	}
	allocated := func(whole []byte) int64 {
		least := int64(1) << 62
		for range 3 { // others may allocate meanwhile
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			testenv.Need(Read(bytes.NewReader(whole), Options{}))(t)
			runtime.ReadMemStats(&after)
			least = min(least, int64(after.TotalAlloc-before.TotalAlloc))
		}
		return least
	}
	more, bytes := allocated(long)-allocated(small), int64(len(long)-len(small))
	if more > bytes*5/2 { // the race detector makes it 2.2; with the library alone it is 2.8 and 5.8
		t.Errorf("%d bytes more of a trace take %d bytes", bytes, more)
	}
}
