package chunk

import "testing"

func TestTheSmallestClassWithTheRoomIsTaken(t *testing.T) {
	check := func(room uintptr) {
		t.Helper()
		class := classOf(room)
		if class < Classes && RoomOf(class) < room {
			t.Errorf("for %d bytes a chunk with %d is taken", room, RoomOf(class))
		}
		if class > 0 && RoomOf(class-1) >= room {
			t.Errorf("for %d bytes class %d is taken, although %d has %d", room, class, class-1, RoomOf(class-1))
		}
	}
	for room := uintptr(0); room < 200<<10; room++ {
		check(room)
	}
	for class := range Classes {
		for _, room := range []uintptr{RoomOf(class) - 1, RoomOf(class), RoomOf(class) + 1} {
			check(room)
		}
	}
	check(1 << 63)
}
