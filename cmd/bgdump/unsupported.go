//go:build !linux

package main

// The identifier below is undefined on purpose: it is the whole error message.
var _ = command_bgdump_needs_linux_because_it_reads_proc_and_drives_terminals
