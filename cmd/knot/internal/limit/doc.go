// Package limit turns requests away that come too often: by client, header, cookie or path, as the tables [[site.limit]] and the
// key requests-per-second of command knot say.
package limit
