package engine

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

func BenchmarkYield(b *testing.B) {
	for _, n := range []int{1, 2, 1000, 10000} {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			rt := newRuntime(b, 1)
			run(b, rt, func() {
				var wg WaitGroup
				each := b.N/n + 1
				for range n {
					wg.Go(func() {
						for range each {
							Yield()
						}
					})
				}
				Yield()
				b.ResetTimer()
				wg.Wait()
			})
		})
	}
}

func BenchmarkGosched(b *testing.B) {
	for _, n := range []int{1, 2, 1000, 10000} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			var wg sync.WaitGroup
			each := b.N/n + 1
			for range n {
				wg.Go(func() {
					for range each {
						runtime.Gosched()
					}
				})
			}
			runtime.Gosched()
			b.ResetTimer()
			wg.Wait()
		})
	}
}

func BenchmarkCreateFinish(b *testing.B) {
	b.Run("task", func(b *testing.B) {
		rt := newRuntime(b, 1)
		run(b, rt, func() {
			for i := range b.N {
				Go(func() {})
				if i%64 == 0 {
					Yield()
				}
			}
		})
	})
	b.Run("goroutine", func(b *testing.B) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		for i := range b.N {
			go func() {}()
			if i%64 == 0 {
				runtime.Gosched()
			}
		}
	})
}

func BenchmarkMutex(b *testing.B) {
	b.Run("task", func(b *testing.B) {
		rt := newRuntime(b, 1)
		run(b, rt, func() {
			var mu Mutex
			for range b.N {
				mu.Lock()
				mu.Unlock()
			}
		})
	})
	b.Run("sync", func(b *testing.B) {
		var mu sync.Mutex
		for range b.N {
			mu.Lock()
			mu.Unlock()
		}
	})
}

func BenchmarkChan(b *testing.B) {
	for _, n := range []int{2, 1000, 10000} {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			rt := newRuntime(b, 1)
			run(b, rt, func() {
				var wg WaitGroup
				each := b.N/(n/2)/2 + 1
				for range n / 2 {
					ping, pong := NewChan[int](0), NewChan[int](0)
					wg.Go(func() {
						for i := range each {
							ping.Send(i)
							pong.Recv()
						}
					})
					wg.Go(func() {
						for i := range each {
							ping.Recv()
							pong.Send(i)
						}
					})
				}
				b.ResetTimer()
				wg.Wait()
			})
		})
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			var wg sync.WaitGroup
			each := b.N/(n/2)/2 + 1
			for range n / 2 {
				ping, pong := make(chan int), make(chan int)
				wg.Go(func() {
					for i := range each {
						ping <- i
						<-pong
					}
				})
				wg.Go(func() {
					for i := range each {
						<-ping
						pong <- i
					}
				})
			}
			b.ResetTimer()
			wg.Wait()
		})
	}
}

// A token goes round a ring of channels, one hand-off at a time.
func BenchmarkRing(b *testing.B) {
	for _, n := range []int{2, 1000, 10000} {
		b.Run(fmt.Sprintf("tasks=%d", n), func(b *testing.B) {
			rt := newRuntime(b, 1)
			run(b, rt, func() {
				ring := make([]*Chan[struct{}], n)
				for i := range ring {
					ring[i] = NewChan[struct{}](0)
				}
				for i := 1; i < n; i++ {
					in, out := ring[i], ring[(i+1)%n]
					Go(func() {
						for {
							v, err := in.Recv()
							if err != nil || out.Send(v) != nil {
								return
							}
						}
					})
				}
				Yield()
				b.ResetTimer()
				for range b.N/n + 1 {
					ring[1%n].Send(struct{}{})
					ring[0].Recv()
				}
			})
		})
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			ring := make([]chan struct{}, n)
			for i := range ring {
				ring[i] = make(chan struct{})
			}
			for i := 1; i < n; i++ {
				in, out := ring[i], ring[(i+1)%n]
				go func() {
					for v := range in {
						out <- v
					}
					close(out)
				}()
			}
			runtime.Gosched()
			b.ResetTimer()
			for range b.N/n + 1 {
				ring[1%n] <- struct{}{}
				<-ring[0]
			}
			close(ring[1%n])
		})
	}
}
