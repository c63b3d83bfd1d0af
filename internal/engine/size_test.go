package engine

import (
	"testing"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A million parked tasks are a figure of the project; these two are its part in it.
func TestTasksAreSmall(t *testing.T) {
	if s := unsafe.Sizeof(Task{}); s > 128 {
		t.Errorf("a Task has %d bytes, want at most 128, a size class of the allocator", s)
	}
	if at := unsafe.Offsetof(Task{}.loop); at != 64 {
		t.Errorf("what a step touches of a Task takes %d bytes, want one line of the cache, 64", at)
	}
	testenv.AtMost(t, unsafe.Sizeof(worker{}), 64, "a worker has N bytes")
}
