// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func event(namespace, name string, size int) pending {
	return pending{regarding: &corev1.ObjectReference{Namespace: namespace, Name: name}, size: size}
}

// takeNames takes what waits.
func takeNames(q *queue) (names []string, dropped int) {
	for {
		p, n, ok := q.takeWaiting()
		if !ok {
			return names, dropped
		}
		names = append(names, p.regarding.Namespace+"/"+p.regarding.Name)
		dropped += n
	}
}

// TestNamespacesTakeTurns: whoever causes a thousand events does not hold up the event of another namespace.
func TestNamespacesTakeTurns(t *testing.T) {
	q := newQueue(1000, 4000)
	for i := range 1000 {
		q.add(event("loud", fmt.Sprint(i), 1))
	}
	q.add(event("quiet", "x", 1))
	names, dropped := takeNames(q)
	if len(names) != 1001 || dropped != 0 {
		t.Fatalf("%d events are written, %d dropped", len(names), dropped)
	}
	if names[1] != "quiet/x" || names[0] != "loud/0" || names[2] != "loud/1" || names[1000] != "loud/999" {
		t.Errorf("the first are %v, the last is %s", names[:3], names[1000])
	}
	if len(q.waiting) != 0 || len(q.turns) != 0 {
		t.Errorf("something is kept of %d namespaces", len(q.waiting))
	}
}

// TestQueueIsBounded: what waits has a limit for a namespace, and for all together, which that with the most pays for.
func TestQueueIsBounded(t *testing.T) {
	q := newQueue(100, 150)
	for i := range 1000 {
		q.add(event("loud", fmt.Sprint(i), 10))
	}
	if q.size != 100 {
		t.Errorf("%d bytes of a namespace wait, want 100", q.size)
	}
	for n := range 5 {
		for i := range 2 {
			q.add(event(fmt.Sprintf("quiet-%d", n), fmt.Sprint(i), 10))
		}
	}
	if q.size != 150 {
		t.Errorf("%d bytes wait, want 150", q.size)
	}
	names, dropped := takeNames(q)
	of := map[string]int{}
	for _, name := range names {
		of[name]++
	}
	for n := range 5 {
		for i := range 2 {
			if name := fmt.Sprintf("quiet-%d/%d", n, i); of[name] != 1 {
				t.Errorf("%s is written %d times", name, of[name])
			}
		}
	}
	if len(names) != 15 || dropped != 990+5 {
		t.Errorf("%d are written, and %d dropped", len(names), dropped)
	}
}

// TestDroppedNamespace: a namespace all of whose events were dropped comes to its turn once for each that follows.
func TestDroppedNamespace(t *testing.T) {
	q := newQueue(100, 100)
	q.add(event("a", "large", 60))
	q.add(event("b", "larger", 70)) // is dropped itself
	q.add(event("b", "small", 10))
	q.add(event("b", "small again", 10))
	names, dropped := takeNames(q)
	if fmt.Sprint(names) != "[a/large b/small b/small again]" || dropped != 1 {
		t.Errorf("%q, %d dropped", names, dropped)
	}
}
