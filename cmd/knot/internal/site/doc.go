// Package site is what surrounds the files of a web site on a knot.Server: virtual hosts, header
// rules, error pages, a fallback for single-page applications, listings and passwords.
//
//	request ─→ Hosts ─→ Site ─→ steps: limits, redirects … ─→ guards: access, passwords … ─→ route, or knot.Files ─→ fallback, listing
//
// Everything is fixed once it serves; to change something make a new Hosts, and Switch to it. The
// functions named Handle are handlers of package knot and run in the request's task.
package site
