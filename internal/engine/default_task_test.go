package engine_test

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

func TestAfterFuncWithoutRuntime(t *testing.T) {
	engine.ForgetLastRuntime()
	engine.MustPanic(t, "AfterFunc without runtime", func() { task.AfterFunc(0, func() {}) })
}
