package sched

import "time"

// The tuning constants of this package, each with its unit and its reason. The bounds of numbers stand with them, in
// stride.go.

// Cohorts.
const (
	cohortTime    = 200 * time.Microsecond // that a cohort runs at most: far more than a switch to another node costs
	cohortSize    = 64                     // tasks of a cohort at most
	cohortOverdue = 20 * time.Millisecond  // that a node waits for its turn in Cohort, in time charged, before it is put in between
	cohortRefresh = time.Second            // between two orders of the nodes, which are drawn from the graph
	herdTrials    = 16                     // cohorts in which all had something to do, until a herd may be twice as large
	longestHeld   = time.Second            // before a task of a node that is held runs in any case
)

// How priorities become tickets: tickets = DefaultTickets * 2^priority, where the priority is between -topPriority and
// topPriority. That is the floor under every stride: no node has less than 1/16 of the tickets of a neutral one, nor less
// than 1/256 of those of any other.
const (
	rankEvery      = 20 * time.Millisecond // unless the state of a resource changes before: two readings
	soonTime       = 5 * rankEvery         // [until the nodes are surely ranked anew, as several loops may take from a resource]
	topPriority    = 4
	resourceWeight = 3   // priority of a node that gives most of what is at its limit
	plentyWeight   = 0.5 // and of one that takes most of what is plentiful
	nearnessWeight = 1   // and of one about to complete; minus that of one far from it
	significant    = 0.1 // share of a change's second moment that its mean must explain
	kept           = 0.5 // share of what a step takes that makes a task one that keeps it
)

// Predictions.
const (
	maxSweeps = 128  // over the graph: tasks that go round do so some hundred times
	precision = 1e-3 // relative; smaller moves end the iteration
)
