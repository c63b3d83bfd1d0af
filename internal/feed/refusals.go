package feed

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// reportEvery is how often refusals are logged at most.
const reportEvery = time.Second

// A refusalLog logs that work is refused, how much, and why. Owned by the goroutine of run.
type refusalLog struct {
	at   time.Duration // of the last line
	said [8]uint64     // refusals by then, by cause
}

// reportRefusals logs what has been refused since the last line, for each cause.
func (s *Feed) reportRefusals(now time.Duration) {
	if s.cfg.Log == nil || now-s.refusals.at < reportEvery {
		return
	}
	for _, cause := range admit.Causes() {
		n := s.refusedFor(cause)
		if more := n - s.refusals.said[cause]; more > 0 {
			s.cfg.Log.Warn("capriccio: work is refused (with CAPRICCIO_OVERLOAD=wait it would wait)",
				"because", cause.String(), "refused", more, "seconds", (now - s.refusals.at).Round(time.Second/10).Seconds())
			s.refusals.said[cause] = n
		}
	}
	s.refusals.at = now
}

// refusedFor is how many tasks were refused for that cause on all loops.
func (s *Feed) refusedFor(cause admit.Cause) (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, side := range s.loops {
		if side.admission != nil {
			n += side.admission.Refused(cause)
		}
	}
	return n
}
