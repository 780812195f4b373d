package testbed

import "testing"

func TestFreePort(t *testing.T) {
	chosen := map[int]bool{}
	for range 100 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if chosen[port] || port < firstPort || port > lastPort {
			t.Errorf("port %d was chosen after %v", port, chosen)
		}
		chosen[port] = true
	}
}
