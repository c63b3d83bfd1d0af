package load

import (
	"fmt"
	"time"
)

// CrowdConfig describes a crowd: many clients that connect at once. Each asks once and,
// when it has its answer, keeps its connection for a while.
type CrowdConfig struct {
	Target
	Request []byte
	Clients int
	Jam     time.Duration // from the beginning: no client closes its connection
	Keep    time.Duration // afterwards, how long a connection is kept when it has been answered
	Limit   time.Duration // the run ends even if some still wait
}

// CrowdResult is what became of a crowd.
type CrowdResult struct {
	Outcomes []Outcome     // one for each client
	Took     time.Duration // until no client was waiting any more, or Limit
	Jam      Usage         // in the second half of the jam: the server can do nothing then
	All      Usage
}

// kept is a connection that is to be closed.
type kept struct {
	i      int32
	serial uint32
	since  time.Duration
}

// crowd is the traffic of a crowd.
type crowd struct {
	cfg      CrowdConfig
	c        *client
	outcomes []Outcome // by tag
	links    []int32   // by tag
	kept     []kept    // in the order in which they were answered
	open     int       // clients whose fate is not known
}

// Crowd lets a crowd loose on a server.
func Crowd(cfg CrowdConfig) (CrowdResult, error) {
	if cfg.Jam <= 0 || cfg.Limit <= cfg.Jam {
		return CrowdResult{}, fmt.Errorf("load: a jam of %v and a limit of %v, want more than 0 and more than the jam", cfg.Jam, cfg.Limit)
	}
	o := &crowd{cfg: cfg, open: cfg.Clients}
	var err error
	if o.c, err = newClient(cfg.Addr, cfg.Clients, o); err != nil {
		return CrowdResult{}, err
	}
	defer o.c.close()
	var used [4]Usage
	for i, until := range []time.Duration{0, cfg.Jam / 2, cfg.Jam, cfg.Limit} {
		if used[i], _, err = o.c.usedBy(until, &cfg.Target); err != nil {
			return CrowdResult{}, err
		}
	}
	result := CrowdResult{Outcomes: o.outcomes, Took: cfg.Limit, Jam: used[2].since(used[1]), All: used[3].since(used[0])}
	if o.open == 0 {
		result.Took = 0
		for i := range o.outcomes {
			result.Took = max(result.Took, o.outcomes[i].Done)
		}
	}
	return result, nil
}

func (o *crowd) due(now time.Duration) (time.Duration, error) {
	for range issueBatch {
		if len(o.outcomes) == o.cfg.Clients {
			break
		}
		tag := int32(len(o.outcomes))
		o.outcomes = append(o.outcomes, Outcome{Scheduled: now, Sent: now})
		i, err := o.c.dial(o.cfg.Request, tag, 0, 0)
		if err != nil {
			return 0, err
		}
		o.links = append(o.links, i)
	}
	o.c.ended = o.open == 0 && now >= o.cfg.Jam
	next := never
	if len(o.outcomes) < o.cfg.Clients {
		next = now
	}
	if now < o.cfg.Jam {
		return min(next, o.cfg.Jam), nil
	}
	for len(o.kept) > 0 {
		k := o.kept[0]
		if at := max(k.since, o.cfg.Jam) + o.cfg.Keep; at > now {
			return min(next, at), nil
		}
		o.kept = o.kept[1:]
		if l := &o.c.links[k.i]; l.serial == k.serial && l.state == linkIdle {
			o.c.hangUp(k.i)
		}
	}
	return next, nil
}

func (o *crowd) answered(tag int32, r response, now time.Duration) error {
	o.finish(tag, StatusFate(r.status), now)
	if l := &o.c.links[o.links[tag]]; l.state == linkIdle {
		o.kept = append(o.kept, kept{o.links[tag], l.serial, now})
	}
	return nil
}

func (o *crowd) lost(tag int32, _ error, now time.Duration) error {
	o.finish(tag, Lost, now)
	return nil
}

func (o *crowd) finish(tag int32, fate Fate, now time.Duration) {
	o.outcomes[tag].Fate, o.outcomes[tag].Done = fate, now
	o.open--
}
