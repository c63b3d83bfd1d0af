package config

// Balancing are the keys of a table [[site.proxy]] that say which backend gets a request.
type Balancing struct {
	Weights    []int   `toml:"weights"`     // of the backends in to, in their order, 0 to 1000; none: all are 1
	Balance    string  `toml:"balance"`     // least, prequal, hash client, hash path, hash header NAME, hash cookie NAME; "" is least
	Bound      float64 `toml:"bound"`       // with a hash: times its part of the requests that a backend may have, 1 or more; 0: any number
	SlowStart  string  `toml:"slow-start"`  // how long the weight of a backend that was out grows; "": no time
	RetryShare float64 `toml:"retry-share"` // part of the requests that may be tried again, 0 to 1; 0: a tenth; below 0: all
	Hedge      float64 `toml:"hedge"`       // part of the requests, 0 to 1: one that takes longer than that part of the last ones goes to a second backend too; 0: none
	// PanicThreshold is the part of the backends, 0 to 1, that must be well for failures to count; if fewer are, all get requests.
	PanicThreshold float64  `toml:"panic-threshold"`
	Zone           string   `toml:"zone"`  // of this server; "": there are no zones
	Zones          []string `toml:"zones"` // of the backends in to, in their order
	Sticky         *Sticky  `toml:"sticky"`
	Canary         *Canary  `toml:"canary"`
	Mirror         *Mirror  `toml:"mirror"`
}

// A Sticky is a table site.proxy.sticky.
type Sticky struct {
	Cookie string `toml:"cookie"` // its name; required
	Secret string `toml:"secret"` // of 16 bytes or more; "": one that is made up at the start
}

// A Canary is a table site.proxy.canary.
type Canary struct {
	To      []string `toml:"to"`      // as of the proxy; required
	Weights []int    `toml:"weights"` // as of the proxy
	Share   float64  `toml:"share"`   // part of the requests, 0 to 1
	Header  string   `toml:"header"`  // "Name" or "Name: value", which sends a request there; "": none
	Cookie  string   `toml:"cookie"`  // "name" or "name=value"; "": none
}

// A Mirror is a table site.proxy.mirror.
type Mirror struct {
	To       []string `toml:"to"`        // as of the proxy; required
	Share    float64  `toml:"share"`     // part of the requests that can be copied, up to 1; 0: all
	MaxBody  string   `toml:"max-body"`  // largest body that is copied, as "64KB", which "" is too; "0": none
	InFlight int      `toml:"in-flight"` // copies under way; 0: 64
}
