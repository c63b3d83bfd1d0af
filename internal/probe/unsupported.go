//go:build !linux

package probe

// The identifier below is undefined on purpose: it is the whole error message.
var _ = package_probe_needs_linux_because_it_reads_proc_and_cgroups
