package probe

import "golang.org/x/sys/unix"

// sizeIsNumber reports whether the size of /proc/PID/fd, as stat shows it, is the number of
// open descriptors: from Linux 6.2 on; before, it is 0.
func sizeIsNumber(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC
}
