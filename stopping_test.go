package capriccio

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// logLines gets each line that is logged.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A stop that takes long is explained.
func TestAStopThatWaitsIsExplained(t *testing.T) {
	defer func(d time.Duration) { stopPatience = d }(stopPatience)
	stopPatience = 0
	var held task.Mutex
	held.Lock()
	log := make(logLines, 100)
	var told string
	go func() {
		for told = range log {
			if strings.Contains(told, "still stopping") {
				held.Unlock()
				return
			}
		}
	}()
	err := Run(context.Background(), func(ctx context.Context) error {
		testenv.Must(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
		held.Lock() // no context ends that
		defer held.Unlock()
		return ctx.Err()
	}, WithLogger(slog.New(slog.NewTextHandler(log, nil))), WithHoldLimit(-1))
	testenv.Check(t, err)
	if !strings.Contains(told, `tasks=1 waits="\n  task main #`) || !strings.Contains(told, "mutex Mutex") {
		t.Errorf("the log says %s", told)
	}
}
