package bgraph

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Whatever is decoded is valid, and comes back the same when it is encoded again; what
// Encode writes has a fixed form.
func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, smallSnapshot()))
	f.Add(encoded(f, docExample()))
	f.Add(encoded(f, new(Snapshot)))
	f.Add(encoded(f, randomSnapshot(seeded(f, 2), 3, 4)))
	f.Add(encoded(f, &Snapshot{Kind: KindGoroutines, Starts: []Start{{Function: "main.main", Now: 1}}, Spans: []Span{{Kind: "task", Path: []PathPart{{Node: 7}}}}, Notes: []string{"cut off"}}))
	f.Fuzz(func(t *testing.T, dump []byte) {
		s, err := Decode(bytes.NewReader(dump))
		if err != nil {
			return
		}
		testenv.Must(t, s.Validate(), "decoded, but")
		again := encoded(t, s)
		got := decoded(t, again)
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("decoded again it is\n%+v\nwas\n%+v", got, s)
		}
		if !bytes.Equal(encoded(t, got), again) {
			t.Fatalf("encoded again it is\n%s\nwas\n%s", encoded(t, got), again)
		}
		useHostile(t, s)
	})
}

// FuzzExtremes puts extreme values into fields of a Snapshot, of which many stay valid.
func FuzzExtremes(f *testing.F) {
	for i := range 20 {
		f.Add(uint64(i), []byte{byte(i), 1, byte(3 * i), 2, byte(5 * i), 3, byte(7 * i), 4})
	}
	f.Fuzz(func(t *testing.T, seed uint64, where []byte) {
		s := randomSnapshot(rand.New(rand.NewPCG(seed, 1)), 3, 6)
		var fields []reflect.Value
		numbers(reflect.ValueOf(s).Elem(), &fields)
		for ; len(where) >= 3; where = where[3:] {
			setExtreme(fields[(int(where[0])<<8|int(where[1]))%len(fields)], where[2])
		}
		dump, err := s.dump()
		if (err == nil) != (s.Validate() == nil) {
			t.Fatalf("encoded: %v; valid: %v", err, s.Validate())
		}
		if err != nil {
			return
		}
		if got := decoded(t, dump); !reflect.DeepEqual(got, s) {
			t.Fatalf("decoded it is\n%+v\nwas\n%+v", got, s)
		}
		useHostile(t, s)
	})
}

// numbers collects the fields that are numbers.
func numbers(v reflect.Value, out *[]reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			numbers(v.Field(i), out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			numbers(v.Index(i), out)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			numbers(v.Elem(), out)
		}
	case reflect.String:
	default:
		*out = append(*out, v)
	}
}

func setExtreme(v reflect.Value, which byte) {
	ints := []int64{0, 1, -1, 1 << 31, 1<<31 - 1, 1 << 53, 1<<62 - 1, 1 << 62, 1<<62 + 1, math.MaxInt64, math.MinInt64}
	switch {
	case v.CanInt():
		v.SetInt(ints[int(which)%len(ints)])
	case v.CanUint():
		v.SetUint(uint64(ints[int(which)%len(ints)]))
	case v.CanFloat():
		floats := []float64{0, 1, -1, 1e-320, 1 << 62, -1 << 62, 1e19, 1e37, 1e38, math.MaxFloat64, math.Inf(1), math.NaN()}
		v.SetFloat(floats[int(which)%len(floats)])
	}
}

// useHostile does with a valid Snapshot from a stranger what can be done with two.
func useHostile(t *testing.T, s *Snapshot) {
	d, err := Diff(s, s)
	switch {
	case s.Kind == KindGoroutines: // it has no differences
		d = s
	case err != nil:
		t.Fatalf("no difference to itself: %v", err)
	default:
		for i := range d.Nodes {
			if n := &d.Nodes[i]; n.Arrivals != 0 || n.Wait.Sum != 0 || n.Wait.Max < 0 {
				t.Fatalf("the difference to itself is %+v", n)
			}
		}
	}
	testenv.Must(t, d.Validate(), "the difference is not valid")
	other := s.Clone()
	other.Program.PID = s.Program.PID/2 + 1
	other.Program.Host = "other"
	if m, err := Merge(s, other); err == nil {
		testenv.Must(t, m.Validate(), "merged it is not valid")
		testenv.Must(t, testenv.Err(m.dump()), "merged it cannot be written")
	}
}

func totalAlloc() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// fleetSnapshot is a large graph with stacks as they are.
func fleetSnapshot(t testing.TB) *Snapshot {
	s := randomSnapshot(seeded(t, 3), 1000, 4000)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for len(n.Stack) < 12 {
			n.Stack = append(n.Stack, Frame{
				Function: "github.com/capriccio-go/capriccio/knot.(*conn).readHead.func1",
				File:     "/home/someone/go/pkg/mod/github.com/capriccio-go/capriccio@v1.2.3/knot/conn.go", Line: 1234, Offset: 56,
			})
		}
	}
	return s
}

func BenchmarkDump(b *testing.B) {
	s := fleetSnapshot(b)
	dump := encoded(b, s)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(dump)))
		for b.Loop() {
			testenv.Need(s.dump())(b)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(dump)))
		for b.Loop() {
			testenv.Need(Decode(bytes.NewReader(dump)))(b)
		}
	})
}
