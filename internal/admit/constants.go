package admit

import "time"

// The tuning constants of this package. Each has its unit, and its reason or what would be worse with half or twice of it
// where that was measured: in the simulated servers (internal/simserver), or by the tests here. Remarks in brackets are at
// constants that are derived, not chosen.

// reading is the time between two readings of what is in use, and two looks at bottlenecks, while tasks run (internal/feed).
const reading = 10 * time.Millisecond

// Resources, see Ledger and Spec.
const (
	defaultTarget = 0.95          // share of the limit: more would do harm
	Plenty        = 0.6           // share of the limit: less is plentiful
	defaultMargin = 0.05          // share of the limit: hysteresis of both
	horizon       = 2 * trendTime // [how far the trend is looked ahead]
	staleAfter    = time.Second   // a sample of a sign counts as 0
	trendTime     = 10 * reading  // [that the trend is averaged over]
	tightShare    = 0.92          // of what tasks hold while they wait: queues are not left to grow
	scarceShare   = 0.85          // in use, so that tasks inside may be waiting for more
	lowestSamples = 4             // samples: the lowest of them counts, and
	lowestTime    = 2 * trendTime // [all of this time: several collections of a busy heap]
	// futileAfter: half of it takes what a burst of requests holds for a cache; twice of it refuses requests for longer
	// after a cache has grown.
	futileAfter = 2 * trendTime // [that others fill the heap]
	futileRoom  = 0.02          // share of the limit that is for newcomers; twice of it passes GOMEMLIMIT
)

// Limits that are found, see Knee and Productivity.
const (
	kneePause   = 2 * reading // [between two changes]
	kneeGoal    = 0.97        // pressure at which the limit grows no more, and the mildest decrease
	kneeBound   = 0.9         // share of the limit from which on the limit is what holds the load; share of the first pressure: the load has had an influence
	kneeReturn  = 0.95        // of the ceiling, to return to at once
	kneeLeast   = 0.7         // the strongest decrease in one step
	kneeForget  = 2.0         // times the ceiling: it is out of date
	kneeSettled = 1.05        // load, in parts of the limit, at which a decrease has come into effect
	kneeMore    = 1.25        // times the first pressure: something else has happened
	kneeBlind   = 0.8         // pressure that is assumed if the load is not the cause

	productivityFade = 0.005 // of the best, per interval of trendTime
)

// How many tasks are inside, see ConcurrencyLimit.
const (
	deviations   = 4                      // that a demand may exceed its mean by; without, simulated servers pass their memory
	mostCredit   = 64                     // tasks that a loop admits without asking
	leastWindow  = 4                      // tasks
	unknownGoal  = 0.6                    // pressure up to which the window grows while the demand is unknown; after
	unknownFor   = time.Second            // that and as long again it is 1
	waitingFor   = 2 * reading            // [that a loop which got no room is taken to be still waiting: it asks every millisecond]
	stuckAfter   = time.Second            // without room, or a task that moves: stalled, and newcomers are refused
	unsureFor    = growthAllowed          // [the same while no resource is scarce]
	askedLately  = growthAllowed          // [tasks that are refused at once ask less often]
	probeAfter   = 5 * reading            // [until it is known where tasks wait]
	probeEvery   = 200 * time.Microsecond // a probe is refused in 10 µs: 5 % of a processor
	probeRoom    = 1.08                   // of the limit
	probeMost    = 1.11                   // of the limit, if a probe is like the tasks inside: just below GOMEMLIMIT
	minimumMoved = reading                // [loops write that a task has moved no more often]
)

// The order of a queue, see EntryQueue.
const (
	levels       = MaxPriority - MinPriority + 1
	clientShares = 256              // clients are told apart by this many numbers: 1 KiB a queue
	sharesHalved = 1 << 12          // tasks admitted, after which old ones count half
	fairLookBack = 32               // newest tasks among which clients with small shares are looked for
	shareChance  = fairLookBack / 2 // [tasks by which equal shares may differ]
	// longestHold is for tasks that compute for long and yield now and then: a newcomer need not wait until one of them
	// has finished.
	longestHold = 10 * time.Millisecond
	// disconnectedAfter is how long a client may still be interested in an answer after it has said that it will send no
	// more: some clients say so right after their request.
	disconnectedAfter = 500 * time.Millisecond
)

// When there is more work than can be done, see OverloadDetector.
const (
	// growthAllowed is how long a queue may grow before that is overload. A crowd that connects, and a burst, are over by
	// then.
	growthAllowed     = 2 * time.Second
	growthAllowedSoon = growthAllowed / 4 // [if it was overloaded lately, or clients leave]
	// burstWait is how long the oldest waits, in a queue that has been growing for as long, before the newest go first:
	// most clients wait longer than that, and most bursts are over before.
	burstWait    = 400 * time.Millisecond
	firstPause   = growthAllowed / 2 // [from an overload to the first trial]
	longestPause = time.Minute       // to a trial, which lets growthAllowedSoon of a queue come in
	soon         = 5 * time.Second   // an overload that returns within that is likely to be the same one
	// leaving: where a quarter as many clients leave as are served the queue grows only as long as clients are patient, and
	// each that leaves costs as much as three that are refused: its next request comes on a new connection.
	leaving     = 4
	usefulLeast = 2 * fairLookBack // [tasks that may wait in any case, for clients that have had less admitted]
	fewRefused  = 50               // overload is over if no more than one of this many had to be refused in a window
	longestWait = 10 * time.Second // that any task waits: by then the client has gone
	longestTurn = stuckAfter       // [between two looks at a queue, which are milliseconds apart, besides what a task may compute: the process stood still]
	// drainEvery: a refusal takes about 10 µs. When overload is found the tasks that have waited too long may be thousands,
	// and to refuse them all would hold up the others: so beside as many as come, one in this time.
	drainEvery = 256 * time.Microsecond
	// startingTime is how much work may be under way from the queue to its first step, and mostStarting how many tasks;
	// there may be half of mostStarting refusals for each, which are behind them.
	startingTime = time.Millisecond
	mostStarting = 32

	tooLongTimes = 10                   // times the residual service time, as one in a hundred waits at 0.8 of the capacity; within
	tooLongLeast = 5 * time.Millisecond // that, and
	tooLongMost  = time.Second          // that

	windowTime     = reading          // [that growth is measured over at least, and]
	windowServed   = 16               // this many served, or
	windowGrowth   = 2 * windowServed // [has got so much longer], or
	windowSlowTime = 250 * time.Millisecond
	windowLong     = 10 * windowTime  // [that it takes to be sure that it has stopped, and]
	windowMany     = 4 * windowServed // [this many served, or]
	windowLongest  = time.Second
	windowSigma    = 1.5      // growth beyond what chance makes, in standard deviations
	serviceWeight  = 1.0 / 64 // of a task in the moving average of service times
	serviceOdd     = 8        // times what is usual: it was a pause of the machine
)

// Bottlenecks, see BottleneckLimit and Backlog.
const (
	limitIdle       = time.Second     // no task had to wait outside for so long: the limit ends
	limitStuck      = longestWait / 2 // [no task departed for so long: the limit ends]
	limitHold       = 2 * limitIdle   // [until the limit is lowered again after that was too much]
	limitLeast      = 2.0             // tasks
	limitRoom       = 2.0             // times the time that one takes, for waiting: with a quarter of it many servers behind a proxy have nothing to do; and
	limitRoomMost   = 0.25            // seconds at most
	limitLower      = 0.5             // times the limit, a step down
	limitHigher     = 1.1             // times the limit, a step up
	shortTimes      = 10              // times the time between two departures is a short wait; within
	shortLeast      = windowTime      // [that, and]
	shortMost       = 10 * windowTime // [that]
	slowDepartures  = 4               // that say something of a slow node
	rateLost        = 0.9             // share of the rate that remains: the decrease was too much
	rateFar         = 0.6             // share of the rate that remains: it is no bottleneck,
	waitFar         = 0.8             // if this share of the wait remains as well
	rateSame        = 1.25            // times the rate: no more depart than before
	waitLonger      = 1.05            // times the wait: it has become longer
	waitingMore     = 1.5             // times the tasks that wait: they have become more
	waitingOvertake = 8               // times, where they overtake each other
	windowRounds    = 4               // times all that wait depart in a window, once they are limited; a window lasts at least the wait divided by this
	quietEnd        = longestWait     // [a node where few wait for so long is not watched any more]
	quietTasks      = 8               // tasks, which are few
	lateTurns       = 64              // turns: one of them is that of the task that has waited longest
	manyOf          = 4               // a kind with this part of the waiting tasks counts by itself
	kindBits        = 10              // of a place in a table of kinds: 8 KiB a table
	knownFrom       = 4               // tasks of a kind, from which on it is known where they go
)

// Large bodies, see BodyBudget. All shares are of the heap's limit.
const (
	bodyStep  = 64 << 10     // bytes that are counted at once
	bodyHolds = 2.5          // bytes that a handler holds at most for each that it has read, while it copies them
	bodyLeast = 1 << 20      // bytes that are taken to be left at least of a body of unknown length
	bodyEasy  = 0.5          // share up to which all are read; also what is held of bodies, from which on it counts as all of them
	bodyMore  = 0.1          // share that a body may take for which there is no room before the newest are refused
	bodyLooks = 10 * reading // [until it is worth a collection to know more of the heap,]
	bodyGiven = 1.0 / 16     // or bodies of that share have ended
	bodySeen  = 4 << 20      // bytes read, from which on it shows how much of them is held
	bodyShare = 0.05         // of the bytes read that is held at least
	bodyPause = reading      // [until the first of the bodies that are held asks again]
)
