// Package suites has the servers of net/http/httptest served by Knot, in the tests of programs that import it and
// with the environment variable ServedByKnot set. It needs the changes to httptest that "bench run suites" makes by
// an overlay, and is empty without the build tag httptest_on_knot.
package suites

// ServedByKnot is the name of the environment variable, and what a test program prints with its first server.
const ServedByKnot = "SERVED_BY_KNOT"
