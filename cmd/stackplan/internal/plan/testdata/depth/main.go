// Command depth measures how much stack functions really take, on many random inputs,
// and writes for each the most that was seen: by the stack pointer where it is called
// from, and by paint. Recursions go round once more than they need, as the bounds allow.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unsafe"
)

const painted = 96 << 10

var (
	rng    = rand.New(rand.NewSource(1))
	sink   any
	lowest uintptr
)

// probe notes how deep the stack is here.
//
//go:noinline
func probe() {
	var here byte
	if at := uintptr(unsafe.Pointer(&here)); at < lowest {
		lowest = at
	}
}

// paint fills the stack below its caller and returns where the paint begins.
//
//go:noinline
func paint() uintptr {
	var area [painted]byte
	for i := range area {
		area[i] = 0xa5
	}
	return uintptr(unsafe.Pointer(&area))
}

// touched returns the lowest address from which on there is something else than paint.
//
//go:noinline
func touched(from uintptr) uintptr {
	for p := from; ; p += 8 {
		if *(*uint64)(unsafe.Pointer(p)) != 0xa5a5a5a5a5a5a5a5 {
			return p
		}
	}
}

//go:noinline
func call(f func(int), n int) (sp, paintUsed int) {
	from := paint()
	var here byte
	top := uintptr(unsafe.Pointer(&here))
	lowest = top
	f(n)
	return int(top - lowest), int(top - touched(from))
}

//go:noinline
func small(n int) { probe() }

//go:noinline
func buffer(n int) {
	var b [3000]byte
	b[n%3000] = 1
	probe()
	sink = string(b[:n%16])
}

//go:noinline
func branches(n int) {
	switch n % 5 {
	case 0:
		small(n)
	case 1:
		buffer(n)
	case 2:
		allocates(n)
	case 3:
		viaInterface(n)
	default:
		viaClosure(n)
	}
}

//go:noinline
func allocates(n int) {
	s := make([]int, 0, n%7)
	for i := range n % 300 {
		s = append(s, i)
	}
	m := make(map[string]int)
	for i := range n % 50 {
		m[strconv.Itoa(i)+"key"] = i
	}
	probe()
	sink = s
	sink = m
}

type doer interface{ do(n int) }
type plain struct{ n int }
type wide struct{ b [600]byte }

//go:noinline
func (p plain) do(n int) { small(n) }

//go:noinline
func (w *wide) do(n int) { x := *w; x.b[n%600]++; buffer(int(x.b[n%600]) + n) }

var doers = []doer{plain{1}, new(wide), &plain{2}}

//go:noinline
func viaInterface(n int) { doers[n%len(doers)].do(n) }

//go:noinline
func viaClosure(n int) {
	f := func(m int) { buffer(n + m) }
	if n%2 == 0 {
		f = small
	}
	apply(f, n)
}

//go:noinline
func apply(f func(int), n int) { f(n); probe() }

//go:noinline
func deferring(n int) {
	defer func() { buffer(n) }()
	for i := range n % 3 {
		defer branches(n + i)
	}
	probe()
}

//go:noinline
func variadic(n int) { sumAll(n, n+1, n+2) }

//go:noinline
func sumAll(all ...int) {
	var b [500]byte
	b[all[0]%500]++
	probe()
	sink = b[all[1]%500]
}

//go:noinline
func largest[T any](all []T, less func(a, b T) bool) T {
	most := all[0]
	for _, x := range all {
		if less(most, x) {
			most = x
		}
	}
	probe()
	return most
}

//go:noinline
func generics(n int) {
	sink = largest([]int{n, 3}, func(a, b int) bool { small(a); return a < b })
	sink = largest([]string{"a", strconv.Itoa(n)}, func(a, b string) bool { buffer(len(a)); return a < b })
}

//go:noinline
func sorts(n int) {
	all := make([]int, n%12)
	for i := range all {
		all[i] = rng.Intn(100)
	}
	sort.Slice(all, func(i, j int) bool { small(i); return all[i] < all[j] })
	slices.SortFunc(all, func(a, b int) int { buffer(a); return b - a })
}

type record struct {
	Name string
	List []int
	Sub  *record
}

//go:noinline
func library(n int) {
	sink = fmt.Sprintf("%d %s %v %x", n, "text", []int{n}, n)
	out, err := json.Marshal(record{"a", []int{n}, &record{Name: "b"}})
	sink = errors.Join(err, fmt.Errorf("%w: %d", os.ErrInvalid, n))
	var back record
	err = json.NewDecoder(bytes.NewReader(out)).Decode(&back)
	sink = strings.Fields(strings.Repeat("ab ", n%9))
	sink = err
}

//go:noinline
func collects(n int) {
	allocates(n)
	if n%40 == 0 {
		runtime.GC()
	}
	sink = make([]byte, 64<<10)
}

//go:noinline
func recursive(n int) {
	if n%3 > 0 {
		recursive(n - 1)
	}
	probe()
}

var measured = map[string]func(int){
	"small": small, "buffer": buffer, "branches": branches, "allocates": allocates, "viaInterface": viaInterface,
	"viaClosure": viaClosure, "deferring": deferring, "variadic": variadic, "generics": generics, "sorts": sorts,
	"library": library, "collects": collects,
}

func main() {
	seed, _ := strconv.ParseInt(os.Args[1], 10, 64)
	rng = rand.New(rand.NewSource(seed))
	done := make(chan bool)
	go func() {
		grow()
		for name, f := range measured {
			var sp, paint int
			for range 150 {
				a, b := call(f, rng.Intn(1000))
				sp, paint = max(sp, a), max(paint, b)
			}
			fmt.Println(name, sp, paint)
		}
		recursive(1)
		close(done)
	}()
	<-done
}

// grow makes the stack large, so that it does not move any more.
//
//go:noinline
func grow() {
	var area [1 << 20]byte
	sink = area[rng.Intn(1<<20)]
}
