package linked

import "testing"

func TestInside(t *testing.T) {
	if got := Call(3) + real(4); got != 9 {
		t.Errorf("it is %d, want 9", got)
	}
}
