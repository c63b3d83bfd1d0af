//go:build linux

package simserver

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/knot"
)

// A starver is a client of HTTP/2 that asks 100 times, takes a byte of each answer every 8 s, and asks again for each answer
// that is ended, if it is stubborn. All is the conductor's.
type starver struct {
	s        *Server
	path     Path
	stubborn bool
	until    time.Duration

	link   *Link
	out    bytes.Buffer
	frames *http2.Framer
	in     []byte
	next   uint32
	under  map[uint32]bool // requests under way
}

const starverAsks = 100

func (v *starver) open() {
	if v.s.Now() >= v.until {
		return
	}
	v.next, v.in, v.under = 1, nil, map[uint32]bool{}
	v.out.Reset()
	v.frames = http2.NewFramer(&v.out, nil)
	v.s.Clients.open++
	v.link = v.s.Connect(port, v.path, v)
}

func (v *starver) connected() {
	v.out.WriteString(http2.ClientPreface)
	v.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for range starverAsks {
		v.request()
	}
	v.flush()
	link := v.link
	var trickle func()
	trickle = func() {
		switch {
		case link != v.link || !link.alive():
		case v.s.Now() >= v.until:
			link.Close()
			v.s.Clients.open--
		default:
			for id := range v.under {
				v.frames.WriteWindowUpdate(id, 1)
			}
			v.flush()
			v.s.After(8*time.Second, trickle)
		}
	}
	v.s.After(8*time.Second, trickle)
}

func (v *starver) request() {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range strings.Fields(":method=GET :scheme=http :path=/?h65536.z1000000 :authority=sim") {
		name, value, _ := strings.Cut(f, "=")
		enc.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	v.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: v.next, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	v.under[v.next] = true
	v.next += 2
}

func (v *starver) flush() {
	v.link.Send(bytes.Clone(v.out.Bytes()))
	v.out.Reset()
}

func (v *starver) received(b []byte) {
	v.in = append(v.in, b...)
	again := 0
	for len(v.in) >= 9 {
		n := 9 + (int(v.in[0])<<16 | int(v.in[1])<<8 | int(v.in[2]))
		if len(v.in) < n {
			break
		}
		if http2.FrameType(v.in[3]) == http2.FrameRSTStream {
			delete(v.under, uint32(v.in[5])<<24|uint32(v.in[6])<<16|uint32(v.in[7])<<8|uint32(v.in[8]))
			again++
		}
		v.in = v.in[n:]
	}
	if v.stubborn && again > 0 && v.s.Now() < v.until {
		for range again {
			v.request()
		}
		v.flush()
	}
}

func (v *starver) ended(syscall.Errno) {
	v.link.Close()
	v.s.Clients.open--
	if v.stubborn {
		v.s.After(time.Millisecond, v.open)
	}
}

// TestStalledResponsesDoNotStarveOthers: a client stalls 2,000 responses over HTTP/2, which hold more memory than there may be.
// Other clients are served: 2 s later if the client has one address, 10 s later if each of its connections has another.
func TestStalledResponsesDoNotStarveOthers(t *testing.T) {
	for _, c := range []struct {
		name     string
		stubborn bool
		host     byte
		within   time.Duration // others are served after this time
	}{
		{"one address", true, 9, 5 * time.Second},
		{"many addresses", false, 0, 14 * time.Second},
		{"many addresses, stubborn", true, 0, 14 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			const from, until = 2 * time.Second, 32 * time.Second
			var served, refused [31]int // by the second
			cfg := Config{
				Seed: 1, Memory: 128 << 20, Patience: time.Minute, Forgetful: time.Minute,
				Change: func(k *knot.Server) { k.H2C = true },
			}
			r := onMix(t, cfg, 1, func(s *Server, _ *Mix) time.Duration {
				start := s.Now()
				for range 20 {
					v := &starver{s: s, path: lan, stubborn: c.stubborn, until: start + until}
					v.path.Host = c.host
					s.At(start+from, v.open)
				}
				s.Clients.OpenLoop(&Habit{Path: lan, Make: func() *Request {
					return &Request{Path: "/?h1000", Done: func(r *Request) {
						at := max(r.Sent-start-from, 0) / time.Second
						if r.Status == 200 {
							served[at]++
						} else {
							refused[at]++
						}
					}}
				}}, 20, start+until)
				return start + until + 2*time.Second
			})
			late := 0
			for _, n := range refused[c.within/time.Second:] {
				late += n
			}
			want(t, !r.Killed && len(r.Broken) == 0 && late == 0, late, "are refused late, of", refused, "served are", served, r.Most>>20, "MiB", r.Broken)
		})
	}
}
