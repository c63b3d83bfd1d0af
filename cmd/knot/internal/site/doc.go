// Package site is what surrounds the files of a web site on a knot.Server: virtual hosts, header
// rules, error pages, a fallback for single-page applications, listings, passwords, and limits for
// each client.
//
//	request ─→ Hosts ─→ Site ─→ rate of the client ─→ steps ─→ password ─→ route, or knot.Files ─→ fallback, listing
//
// Everything is fixed once it serves; to change something make a new Hosts, and Switch to it. The
// functions named Handle are handlers of package knot and run in the request's task.
package site
