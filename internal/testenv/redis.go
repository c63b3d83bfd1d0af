package testenv

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"
)

// Redis starts a redis-server that listens at a socket and keeps its files beside it, and ends it with the test or by stop. The test is
// skipped where there is none.
func Redis(t testing.TB, socket string) (stop func()) {
	cmd := exec.Command(Program(t, "redis-server"), "--port", "0", "--unixsocket", socket, "--save", "", "--dir", filepath.Dir(socket), "--logfile", "redis.log")
	Must(t, cmd.Start())
	stop = func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	t.Cleanup(stop)
	Until(t, "Redis listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return stop
}
