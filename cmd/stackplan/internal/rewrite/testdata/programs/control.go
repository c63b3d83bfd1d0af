package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
	"sync"
)

func rescued(f func()) (err error) {
	defer func /*refused: recover*/ () {
		if r := recover(); r != nil {
			err = fmt.Errorf("rescued: %v", r)
		}
	}()
	f /*checkpoint*/ ()
	return nil
}

func rescuer() {
	if r := recover(); r != nil {
		say("rescuer:", r)
	}
}

func notDirectly() { rescuer() }

func count(n *int) { *n++; say("count", *n) }

func results(n int) (x int, err error) {
	defer func /*checkpoint*/ () { x += 100 }()
	defer func() {
		if r := recover(); r != nil {
			x, err = -1, fmt.Errorf("%v", r)
		}
	}()
	switch n {
	case 0:
		return two /*checkpoint*/ (5)
	case 1:
		panic("one")
	case 2:
		x = 3
		return
	}
	return one(number(4), "x"), nil
}

var _ = add("defer and recover", func() {
	say(rescued(func() { panic("p") }), rescued(func() {}), rescued(func() { var m map[int]int; m[number(1)] = 2 }))
	func() {
		defer rescuer /*refused: recover*/ ()
		panic("direct")
	}()
	say(rescued(func() {
		defer notDirectly /*checkpoint*/ ()
		panic("nested call of recover")
	}))
	n := 0
	func() {
		for range 3 {
			defer count /*checkpoint*/ (&n)
		}
		defer say("deferred argument", number(n))
		n = 10
	}()
	for i := range 4 {
		say(results(i))
	}
	err := rescued(func() {
		defer func() { panic(fmt.Sprint("second after ", recover())) }()
		panic("first")
	})
	say(err)
	p := &point{1, 1}
	func() {
		defer p.move /*checkpoint*/ (5)
		defer say(p.x)
		p = &point{50, 50}
	}()
	say(*p)
})

var _ = add("goroutines", func() {
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for i := range 5 {
		wg.Add(1)
		go func(k int) {
			defer wg.Done /*checkpoint*/ ()
			mu.Lock()
			defer mu.Unlock()
			total += k * i
		}(i)
	}
	wg.Wait()
	say(total)
	done := make(chan string)
	go send /*checkpoint*/ (done, noted("sent"))
	say(<-done)
})

func send(c chan<- string, s string) { c <- s }

func where() string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprint(file[strings.LastIndexByte(file, '/')+1:], ":", line)
}

func here() string {
	_, file, line, _ := runtime.Caller(0)
	return fmt.Sprint(file[strings.LastIndexByte(file, '/')+1:], ":", line)
}

func whereFrom() string { return where /*refused: looks at its caller*/ () }

var _ = add("callers", func() {
	say(where /*refused: looks at its caller*/ (), here /*checkpoint*/ (), whereFrom /*checkpoint*/ ())
	logger := log.New(&out, "", log.Lshortfile)
	logger.Println /*refused: may look at its caller*/ ("logged")
	logger.
		Println("on the second line",
			number(1))
	say(here(), here(), number(
		here2(), // comment )
	), here())
})

func here2() int {
	_, _, line, _ := runtime.Caller(1)
	return line
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func even(n int) bool {
	if n == 0 {
		return true
	}
	return odd /*checkpoint*/ (n - 1)
}

func odd(n int) bool {
	if n == 0 {
		return false
	}
	return even(n - 1)
}

func frames(n int) (sum int) {
	var buf [512]int
	for i := range buf {
		buf[i] = n * i
	}
	if n > 0 {
		sum = frames /*checkpoint*/ (n - 1)
	}
	return sum + buf[n%512] + buf[511]
}

var _ = add("recursion", func() { say(fib(12), even(30), odd(30), frames(40)) })

var _ = add("closures", func() {
	x, calls := 1, 0
	bump := func(k int) int { x += k; calls++; return x }
	y := bump /*checkpoint*/ (2)
	z := bump(3) + bump(4)
	say(x, y, z, calls)
	var self func(int) int
	self = func(n int) int {
		if n == 0 {
			return 0
		}
		return n + self /*checkpoint*/ (n-1)
	}
	say(self(10))
	var fs []func() int
	for i := 0; i < 3; i++ {
		v := number(i)
		fs = append(fs, func() int { v++; return v*10 + i })
	}
	for _, f := range fs {
		say(f(), f())
	}
	func() {
		a, err := two(1)
		defer func() { say("deferred", a, err) }()
		a, err = two(a)
	}()
	seq(func(i int) bool {
		say("seq", i)
		return i < 3
	})
	for i := range seq {
		if i == 2 {
			break
		}
		say(number(i))
	}
})

func seq(yield func(int) bool) {
	for i := range 10 {
		if !yield(i) {
			return
		}
	}
}

func find() (int, error) {
	for i := range seq {
		if i == 3 {
			return two /*checkpoint*/ (i)
		}
	}
	return 0, nil
}

type failure struct{ code int }

func (f *failure) Error() string { return fmt.Sprint("failure ", f.code) }

func fails(n int) *failure {
	if n == 0 {
		return nil
	}
	return &failure{n}
}

func converted(n int) error { return fails /*checkpoint*/ (n) }

var _ = add("results", func() {
	say(find())
	err := converted(0)
	say(err == nil)
	var f *failure
	say(errors.As(converted(3), &f), f)
	if _, err := os.Open(noted("/does/not/exist")); err != nil {
		say(errors.Is(err, os.ErrNotExist))
	}
	var e error = fails /*checkpoint*/ (4)
	say(e)
	e = fails /*checkpoint*/ (5)
	say(e)
})
