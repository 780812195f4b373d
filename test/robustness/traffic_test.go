// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
	"github.com/metal3-io/metal3-apiserver/test/robustness/validate"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// traffic is what clients and operators do.
type traffic struct {
	*bed
	seed    uint64
	over    context.Context // ends when nothing new is to begin
	running sync.WaitGroup
	clients int

	mu sync.Mutex
	// hosts are the names of those that live, by machine; empty for a machine without one.
	hosts []string
}

// mix is how many of each there are. A waverer is an owner that only takes images away and asks for them again.
type mix struct{ owners, waverers, readers, meddlers, watchers, operators int }

// beginTraffic has clients work until over ends.
func (b *bed) beginTraffic(over context.Context, seed uint64, m mix) *traffic {
	t := &traffic{bed: b, seed: seed, over: over, hosts: make([]string, m.owners+m.waverers)}
	for i := range t.hosts {
		address, mac, change := b.ironic.NewBMC("admin", "password"), testbed.NewMAC(), t.change
		if i >= m.owners {
			change = t.changeMind
		}
		t.begin(func(c *client, random *rand.Rand) { t.own(c, random, i, address, mac, change) })
	}
	for _, kind := range []struct {
		n  int
		do func(*client, *rand.Rand)
	}{{m.readers, t.read}, {m.meddlers, t.meddle}, {m.watchers, t.watch}, {m.operators, t.operate}} {
		for range kind.n {
			t.begin(kind.do)
		}
	}
	return t
}

// begin has a client of its own do something again and again.
func (t *traffic) begin(do func(*client, *rand.Rand)) {
	t.clients++
	c, random := &client{bed: t.bed, id: t.clients}, rand.New(rand.NewPCG(t.seed, uint64(t.clients)))
	t.running.Go(func() {
		for t.over.Err() == nil {
			do(c, random)
		}
	})
}

// pause waits for up to most. It returns false if the traffic is over.
func (t *traffic) pause(random *rand.Rand, most time.Duration) bool {
	timer := time.NewTimer(time.Duration(random.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.over.Done():
		return false
	}
}

func (t *traffic) any(random *rand.Rand) *replica { return t.replicas[random.IntN(len(t.replicas))] }

// anyHost returns the name of a host that lives; false if there is none.
func (t *traffic) anyHost(random *rand.Rand) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := t.hosts[random.IntN(len(t.hosts))]
	return name, name != ""
}

func (t *traffic) setHost(machine int, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts[machine] = name
}

// own creates a host for a machine, changes it a few times, and deletes it. A host that lives when the traffic is over goes on living.
func (t *traffic) own(c *client, random *rand.Rand, machine int, address, mac string, change func(*client, *rand.Rand, string)) {
	name := fmt.Sprintf("m%d-%s", machine, c.token())
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{tokenAnnotation: c.token()}}, Spec: metal3.BareMetalHostSpec{
		Online: random.IntN(2) == 0, BootMACAddress: mac, BMC: metal3.BMCDetails{Address: address, CredentialsName: "bmc"},
	}}
	if random.IntN(3) == 0 {
		host.Spec.Image = imageOf("first.raw")
	}
	for c.create(t.any(random), host).Outcome != history.OK {
		if !t.pause(random, time.Second) {
			return
		}
		if found, _ := c.get(t.any(random), name); found != nil {
			break // the request had got through
		}
	}
	t.setHost(machine, name)
	for range 3 + random.IntN(6) {
		// Half of the changes come while the host is still busy with the last one.
		if random.IntN(2) == 0 {
			t.awaitRest(c, random, name)
		}
		if !t.pause(random, 2*time.Second) {
			return
		}
		change(c, random, name)
	}
	t.setHost(machine, "")
	for {
		c.delete(t.any(random), name)
		if err := t.await(10*time.Second, func() bool {
			_, o := c.get(t.any(random), name)
			return o.Reason == string(metav1.StatusReasonNotFound)
		}); err == nil {
			return
		}
		if t.over.Err() != nil {
			return
		}
	}
}

func (t *traffic) change(c *client, random *rand.Rand, name string) {
	r := t.any(random)
	write := history.Write{Online: random.IntN(4) > 0}
	switch random.IntN(11) {
	case 0, 1:
		c.patch(r, name, write, imageOf("first.raw"))
	case 2:
		c.patch(r, name, write, imageOf("second.raw"))
	case 3, 4:
		c.patch(r, name, write, nil)
	case 5:
		c.patch(r, name, history.Write{Reboot: true, Online: true}, nil)
	case 6:
		c.power(r, name, []metal3.PowerAction{metal3.PowerActionOn, metal3.PowerActionOff, metal3.PowerActionReboot}[random.IntN(3)])
	case 7:
		c.inspect(r, name)
	default:
		t.changeMind(c, random, name)
	}
}

// changeMind takes the image away and asks for it again, when the first request to Ironic is perhaps still to be carried out.
func (t *traffic) changeMind(c *client, random *rand.Rand, name string) {
	online := history.Write{Online: true}
	c.patch(t.any(random), name, online, imageOf("first.raw"))
	t.awaitRest(c, random, name)
	c.patch(t.any(random), name, online, nil)
	t.pause(random, 2*time.Second)
	c.patch(t.any(random), name, online, imageOf("first.raw"))
}

// awaitRest waits until a host is as its spec asks, for a while.
func (t *traffic) awaitRest(c *client, random *rand.Rand, name string) {
	_ = t.await(15*time.Second, func() bool { // it is no failure if faults keep it busy
		host, _ := c.get(t.any(random), name)
		return host != nil && validate.AtRest(convert(t.ironic, host)) == ""
	})
}

// await repeats a request until it returns true, or the traffic is over.
func (t *traffic) await(limit time.Duration, arrived func() bool) error {
	return wait.PollUntilContextTimeout(t.over, 300*time.Millisecond, limit, true, func(context.Context) (bool, error) { return arrived(), nil })
}

// read reads a host or a list.
func (t *traffic) read(c *client, random *rand.Rand) {
	if !t.pause(random, 300*time.Millisecond) {
		return
	}
	r := t.any(random)
	switch random.IntN(6) {
	case 0:
		c.list(r, "", 0)
	case 1:
		c.list(r, "0", 0)
	case 2:
		c.list(r, "", 2)
	default:
		if name, lives := t.anyHost(random); lives {
			c.get(r, name)
		}
	}
}

// meddle changes a host of another client: its annotation, whether with the version that it has read or without.
func (t *traffic) meddle(c *client, random *rand.Rand) {
	if !t.pause(random, time.Second) {
		return
	}
	name, lives := t.anyHost(random)
	if !lives {
		return
	}
	if random.IntN(3) == 0 {
		c.patch(t.any(random), name, history.Write{TokenOnly: true}, nil)
		return
	}
	host, _ := c.get(t.any(random), name)
	if host != nil && t.pause(random, 200*time.Millisecond) {
		c.update(t.any(random), host, func(*metal3.BareMetalHost) {})
	}
}

// operate is what an operator does in Ironic, past the server.
func (t *traffic) operate(_ *client, random *rand.Rand) {
	if !t.pause(random, 2*time.Second) {
		return
	}
	nodes := t.ironic.NodeUUIDs()
	if len(nodes) == 0 {
		return
	}
	node := nodes[random.IntN(len(nodes))]
	// The node may be gone by now.
	switch random.IntN(3) {
	case 0:
		_ = t.ironic.SetNode(node, map[string]any{"maintenance": true, "maintenance_reason": "somebody is at the machine"})
		t.pause(random, 2*time.Second)
		_ = t.ironic.SetNode(node, map[string]any{"maintenance": false, "maintenance_reason": nil})
	case 1:
		if t.ironic.LockNode(node, "") == nil {
			t.pause(random, time.Second)
			_ = t.ironic.UnlockNode(node)
		}
	case 2:
		_ = t.ironic.SetNode(node, map[string]any{"extra": map[string]any{}, "description": fmt.Sprint(random.Int())})
	}
}
