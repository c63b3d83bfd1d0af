// Package redirect sends clients elsewhere: from HTTP to HTTPS, and by the tables [[site.redirect]] of command knot.
package redirect
