package lint

import "time"

// The limits from which on Find finds something.
const (
	// minSamples is how many timed waits or steps an average needs to count.
	minSamples = 100
	// pileTasks is how many tasks in one place make a pile. They are found if they are
	// pileFactor times as many as rate and time of the tasks that left explain, or if
	// as many were added between two snapshots.
	pileTasks, pileFactor = 100, 4
	// convoyTasks is how many tasks on average have to queue for a lock, for
	// convoyFactor times as long as they run when they have it.
	convoyTasks, convoyFactor = 4, 10
	// waitLimit is how long a task may wait for other tasks. In a graph that
	// covers less, nine tenths of its time are too long, and at least 10 s. For a lock
	// 2 s are too long if every other task waits for a task too, or listens.
	waitLimit = 10 * time.Minute
	// unbalance is how many times the steps of the other loops one loop may make.
	unbalance = 2
	// pingPongRate is how many times a second tasks of two loops must wake each other, for
	// steps of limits.pingPongStep at most on average.
	pingPongRate = 1000
	// stallFactor is how many times as long as the kernel had taken a processor the goroutines of a finding must have
	// waited for it to be more than a remark.
	stallFactor = 2
)

// limits are the limits of checks that tests change, as they run real programs for a short time.
type limits struct {
	step         time.Duration // a step may keep its loop: a longer mean is an error, a longer 99th percentile or report of the watchdog a warning, a longer maximum alone an info
	ready        time.Duration // ready tasks may wait for their loop on average
	starve       time.Duration // a single ready task may wait for its loop
	pingPongStep time.Duration // see pingPongRate
	leakShare    float64       // of a resource that was taken need not come back, besides the amount that tasks hold for good reason
	perCheck     int           // findings are kept, the worst
}

var usual = limits{
	step: 10 * time.Millisecond, ready: 10 * time.Millisecond, starve: time.Second, pingPongStep: 50 * time.Microsecond,
	leakShare: 0.05, perCheck: 20,
}
