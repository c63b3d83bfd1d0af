package main

import (
	"context"
	"fmt"
	"os"
)

// lighttpd is one process with one thread, and keeps connections as long as a run takes.
const lighttpdConfig = `server.document-root = "%[3]s"
server.bind = "%[1]s"
server.port = %[2]s
server.errorlog = "%[4]s/error.log"
server.max-fds = 20000
server.max-connections = 9900
server.max-keep-alive-requests = 1000000
server.max-keep-alive-idle = 3600
server.listen-backlog = 4096
mimetype.assign = ( "" => "text/plain" )
`

// Apache's event model: a thread waits for all idle connections, others serve requests. One
// process, as all others have.
const apacheConfig = `ServerRoot %[3]s
ServerName bench
PidFile %[3]s/apache.pid
DefaultRuntimeDir %[3]s
Mutex posixsem
Listen %[1]s
ListenBacklog 4096
%[4]s
LoadModule mpm_event_module %[5]s/mod_mpm_event.so
LoadModule authz_core_module %[5]s/mod_authz_core.so
ErrorLog %[3]s/error.log
LogLevel crit
ServerLimit 1
StartServers 1
ThreadLimit 512
ThreadsPerChild 512
MaxRequestWorkers 512
AsyncRequestWorkerFactor 20
MaxKeepAliveRequests 0
KeepAlive On
KeepAliveTimeout 3600
Timeout 3600
DocumentRoot %[2]s
<Directory %[2]s>
Require all granted
</Directory>
`

// apacheModules is where Debian's package has them.
const apacheModules = "/usr/lib/apache2/modules"

// webMost are the reasons why some servers sit out points, of which each takes fewer connections than a process can have.
var webMost = map[string]func(point) string{
	"lighttpd": without("of more than 9,900 clients: takes half as many connections as descriptors (server.max-connections)",
		func(p point) bool { return p.x > 9900 }),
	"apache-event": without("of more than 10,000 clients: one process of 512 threads takes 10,752 connections (AsyncRequestWorkerFactor), more take more memory than there is",
		func(p point) bool { return p.x > 10_000 }),
}

// webPeers are the servers of files besides nginx that this machine has or can build; the others
// are skipped with the reason.
func (c *cold) webPeers() []launcher {
	found := append(c.peer("fasthttp", "-root", c.root), c.lighttpd(c.root, "")...)
	path, err := c.find("apache2")
	if err == nil && !c.planning() {
		_, err = os.Stat(apacheModules + "/mod_mpm_event.so")
	}
	if err != nil {
		c.skip("apache-event", err)
		return found
	}
	return append(found, launcher{"apache-event", func(ctx context.Context) (*server, error) {
		user := ""
		if os.Geteuid() == 0 { // as which it serves nothing
			user = "User www-data\nGroup www-data"
			if err := os.Chmod(c.scratch, 0o755); err != nil {
				return nil, err
			}
		}
		return startConfigured(ctx, configured{system: "apache-event", path: path, configure: func(dir, addr string) string {
			return fmt.Sprintf(apacheConfig, addr, c.root, dir, user, apacheModules)
		}, args: func(_, config string) []string { return []string{"-X", "-f", config} }}, c.scratch)
	}})
}
