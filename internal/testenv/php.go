package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// PHP starts a php-fpm with two processes and returns its address, as "unix:/path". The test is skipped where there is none.
func PHP(t testing.TB) string {
	program := Program(t, "php-fpm*")
	dir := t.TempDir()
	socket, config := dir+"/php.sock", dir+"/fpm.conf"
	Must(t, os.WriteFile(config, fmt.Appendf(nil, "[global]\nerror_log = /dev/null\n[www]\nlisten = %s\nuser = %d\npm = static\npm.max_children = 2\n", socket, os.Getuid()), 0o644))
	cmd := exec.Command(program, "-n", "-F", "-R", "-y", config)
	var said Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	Must(t, cmd.Start())
	ended := make(chan bool)
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	Until(t, "php-fpm", func() bool {
		select {
		case <-ended:
			t.Fatalf("php-fpm has ended: %s", said.String())
		default:
		}
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "unix:" + socket
}
