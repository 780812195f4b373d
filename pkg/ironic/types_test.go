package ironic

import "testing"

func TestIsAnothers(t *testing.T) {
	for name, want := range map[string]bool{"": false, "host-0": false, "other": false, "metal~host-0": false, "metal~host-1": true, "other~host-0": true} {
		if got := (&Node{Name: name}).IsAnothers("metal", "host-0"); got != want {
			t.Errorf("node %q: %t, want %t", name, got, want)
		}
	}
}
