package main

import (
	"fmt"
	"net"
	"os/exec"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// startNginx starts nginx with the block http of a configuration, which listens on the socket called nginx in dir, until the end of the test.
func startNginx(t *testing.T, program, dir, http string) {
	t.Helper()
	write(t, dir+"/nginx.conf", fmt.Sprintf("daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/log; events { worker_connections 64; }\nhttp { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;\n%s }\n", dir, http))
	nginx := exec.Command(program, "-p", dir, "-c", dir+"/nginx.conf")
	var said testenv.Buffer
	nginx.Stderr = &said
	testenv.Must(t, nginx.Start())
	ended := make(chan bool)
	go func() {
		nginx.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		nginx.Process.Kill()
		<-ended
	})
	testenv.Until(t, "nginx serves", func() bool {
		select {
		case <-ended:
			t.Fatalf("nginx has ended: %s", said.String())
		default:
		}
		nc, err := net.Dial("unix", dir+"/nginx")
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}
