//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// An alert on the findings of a program with a contended lock fires in Prometheus, and names the place.
func TestAlertOfPrometheus(t *testing.T) {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no command prometheus in PATH: its module github.com/prometheus/prometheus takes minutes to build")
	}
	_, out, _ := start(t, "lookup", "slow")
	program := strings.TrimSpace(testenv.Need(out.ReadString('\n'))(t))
	agent := serveCommand(t, realSurroundings(), "-serve", ":0", program)
	rules := writeFile(t, "rules.yml", `groups: [{name: waits, rules: [{alert: GoroutinesQueue, expr: 'bgraph_finding{severity=~"error|warning", check="convoy"} == 1'}]}]`)
	config := writeFile(t, "prometheus.yml", fmt.Sprintf("global: {scrape_interval: 2s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: bgdump\n  static_configs: [{targets: [%q]}]\n",
		rules, strings.TrimPrefix(agent, "http://")))
	ln := testenv.Need(net.Listen("tcp", "127.0.0.1:0"))(t) // a port that is free: Prometheus does not tell which one it got
	address := ln.Addr().String()
	ln.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(t.TempDir(), "data"), "--web.listen-address="+address)
	log := testenv.Need(cmd.StderrPipe())(t)
	testenv.Must(t, cmd.Start())
	read := make(chan bool)
	defer func() {
		cancel()
		<-read
		cmd.Wait()
	}()
	ready := make(chan bool, 1)
	go func() {
		defer close(read)
		in := bufio.NewScanner(log)
		for in.Scan() && !strings.Contains(in.Text(), "ready to receive web requests") {
		}
		ready <- true
		io.Copy(io.Discard, log)
	}()
	<-ready
	get := getter(t, "http://"+address)
	testenv.Until(t, "an alert fires", func() bool {
		alerts := get("/api/v1/alerts", 200)
		return strings.Contains(alerts, `"firing"`) && strings.Contains(alerts, `"source":"`+program+`"`) && strings.Contains(alerts, "fleetreal_test.go:")
	})
}
