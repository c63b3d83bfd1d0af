// Package chunk has the stacks that package stackchunk lends to tasks: the pool of each loop, and
// how a chunk is linked, runs a function and is given back (Capriccio, SOSP 2003, section 3). The
// engine makes the pools; programs call stackchunk.
package chunk
