// SPDX-License-Identifier: Apache-2.0

package robustness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/robustness/history"
	"github.com/metal3-io/metal3-apiserver/test/robustness/line"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// bed is what a scenario runs on. Everything that is said between the programs goes through lines.
type bed struct {
	t        *testing.T
	ctx      context.Context
	ns       string
	dir      string // for the record
	record   *history.Recorder
	ironic   *testbed.SimulatedIronic
	etcd     *testbed.StoreEtcd // nil if the server embeds one
	replicas []*replica

	leases sync.Mutex
	// holders are the Leases that were seen; Server is still the identity.
	holders []history.Lease
}

// replica is a server with the lines from and to it.
type replica struct {
	*testbed.Server
	name string
	// toServer is the line of its clients.
	toServer, toIronic, toKube, toEtcd *line.Line
	metal3                             versioned.Interface
}

// shortLease has another replica take over within two seconds.
var shortLease = []string{"--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=300ms"}

// newBed starts an Ironic, the servers, and with externalEtcd an etcd for them.
func newBed(t *testing.T, ctx context.Context, dir string, replicas int, externalEtcd bool, options ironicsim.Options) *bed {
	t.Helper()
	b := &bed{t: t, ctx: ctx, ns: s.NewNamespace(t, ctx), dir: dir}
	var err error
	if b.record, err = history.NewRecorder(filepath.Join(dir, "record.jsonl")); err != nil {
		t.Fatal(err)
	}
	var peers sync.Map // the replica of a connection to Ironic
	options.Trail = func(e ironicsim.Event) { b.record.Add(trailEntry(b.record, &peers, e)) }
	if b.ironic, err = testbed.StartSimulatedIronic(options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.ironic.Close)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bmc"}, StringData: map[string]string{"username": "admin", "password": "password"}}
	if _, err := s.Core.CoreV1().Secrets(b.ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if externalEtcd {
		if b.etcd, err = testbed.NewStoreEtcd(t.TempDir()); err != nil {
			t.Fatal(err)
		}
		if err := b.etcd.Start(ctx); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.etcd.Kill() })
		b.followEtcd()
	}
	b.followLeases()
	for i := range replicas {
		b.replicas = append(b.replicas, b.newReplica(fmt.Sprintf("server-%d", i), &peers))
	}
	for _, r := range b.replicas {
		if err := r.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bed) newReplica(name string, peers *sync.Map) *replica {
	b.t.Helper()
	r := &replica{name: name}
	r.toIronic = b.newLine(b.ironic.URL(), func(peer string) { peers.Store(peer, name) })
	r.toKube = b.newLine(s.Config.Host, nil)
	options := testbed.ServerOptions{
		KubeURL: "https://" + r.toKube.Address(), IronicEndpoint: "http://" + r.toIronic.Address(),
		Args: append(append([]string{"--v=2"}, testbed.UnusedRamdiskArgs...), shortLease...),
	}
	if b.etcd != nil {
		r.toEtcd = b.newLine(b.etcd.Endpoint, nil)
		options.EtcdServers = "http://" + r.toEtcd.Address()
	}
	r.Server, _ = s.NewServer(b.t, b.ctx, b.ns, options)
	if err := r.ApplyRBAC(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if _, err := r.Stop(); err != nil {
			b.t.Error(err)
		}
		if log, err := r.Logs(); err == nil && b.t.Failed() {
			if err := os.WriteFile(filepath.Join(b.dir, name+".log"), []byte(log), 0o600); err != nil {
				b.t.Error(err)
			}
		}
	})
	r.toServer = b.newLine(r.Direct.Config.Host, nil)
	config := rest.CopyConfig(r.Direct.Config)
	config.Host = "https://" + r.toServer.Address()
	config.WarningHandlerWithContext = noteWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return once{next} })
	var err error
	if r.metal3, err = versioned.NewForConfig(config); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// newLine returns a line to the program at a URL.
func (b *bed) newLine(address string, connected func(peer string)) *line.Line {
	b.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		b.t.Fatal(err)
	}
	l, err := line.New(u.Host, connected)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(l.Close)
	return l
}

// trailEntry is the entry for an event of Ironic.
func trailEntry(record *history.Recorder, peers *sync.Map, e ironicsim.Event) history.Entry {
	at := record.At(e.At)
	switch {
	case e.Node != nil:
		return history.Entry{Node: &history.Node{At: at, NodeVersion: *e.Node}}
	case e.Machine != nil:
		return history.Entry{Machine: &history.Machine{At: at, MachineTouch: *e.Machine}}
	}
	known, _ := peers.Load(e.Request.Peer)
	server, _ := known.(string)
	return history.Entry{Request: &history.Request{
		Arrived: record.At(e.Request.Arrived), Start: record.At(e.Request.Began), End: at, Server: server, RequestEnd: *e.Request,
	}}
}

// followEtcd records the versions of hosts in etcd, through no line.
func (b *bed) followEtcd() {
	b.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{b.etcd.Endpoint}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = client.Close() })
	ctx := clientv3.WithRequireLeader(b.ctx)
	changes := client.Watch(ctx, "/", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithPrevKV())
	var following sync.WaitGroup
	following.Go(func() {
		for some := range changes {
			for _, e := range some.Events {
				if entry, is := storedEntry(b.record.Now(), e); is {
					b.record.Add(entry)
				}
			}
		}
	})
	b.t.Cleanup(func() { _ = client.Close(); following.Wait() })
}

// storedEntry is the entry for a change in etcd; false if it is not about a host.
func storedEntry(at history.Time, e *clientv3.Event) (history.Entry, bool) {
	key := strings.Split(string(e.Kv.Key), "/")
	if len(key) < 3 || key[len(key)-3] != "baremetalhosts" {
		return history.Entry{}, false
	}
	value := e.Kv.Value
	if e.Type == clientv3.EventTypeDelete && e.PrevKv != nil {
		value = e.PrevKv.Value
	}
	var object metav1.PartialObjectMetadata
	_ = json.Unmarshal(value, &object) // one that cannot be read has no token, which the watches are then compared with
	return history.Entry{Stored: &history.Stored{
		At: at, Revision: e.Kv.ModRevision, Name: key[len(key)-1], Created: e.IsCreate(), Deleted: e.Type == clientv3.EventTypeDelete,
		Token: object.Annotations[tokenAnnotation],
	}}, true
}

// followLeases notes who leads.
func (b *bed) followLeases() {
	var following sync.WaitGroup
	following.Go(func() {
		for b.ctx.Err() == nil {
			w, err := s.Core.CoordinationV1().Leases(b.ns).Watch(b.ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			b.noteLeases(w)
		}
	})
	b.t.Cleanup(following.Wait) // after the context of the test has ended
}

func (b *bed) noteLeases(w watch.Interface) {
	defer w.Stop()
	for e := range w.ResultChan() {
		if lease, is := e.Object.(*coordinationv1.Lease); is && e.Type != watch.Deleted {
			b.leases.Lock()
			b.holders = append(b.holders, history.Lease{At: b.record.Now(), Server: ptr.Deref(lease.Spec.HolderIdentity, ""), Transitions: ptr.Deref(lease.Spec.LeaseTransitions, 0)})
			b.leases.Unlock()
		}
	}
}

// recordLeases records the Leases with the names of the replicas, which tell their identities in their logs.
func (b *bed) recordLeases() {
	b.leases.Lock()
	defer b.leases.Unlock()
	for _, l := range b.holders {
		l.Server = b.identified(l.Server)
		b.record.Add(history.Entry{Lease: &l})
	}
}

// identified returns the name of the replica that leads with an identity; empty if none has said that it does.
func (b *bed) identified(identity string) string {
	for _, r := range b.replicas {
		log, err := r.Logs()
		if err == nil && identity != "" && strings.Contains(log, fmt.Sprintf("This replica leads\" identity=%q", identity)) {
			return r.name
		}
	}
	return ""
}

// leader returns the replica that was last seen to lead; nil if none was.
func (b *bed) leader() *replica {
	b.leases.Lock()
	identity := ""
	if n := len(b.holders); n > 0 {
		identity = b.holders[n-1].Server
	}
	b.leases.Unlock()
	name := b.identified(identity)
	for _, r := range b.replicas {
		if r.name == name {
			return r
		}
	}
	return nil
}

// convert is a host as it is recorded.
func convert(ironic *testbed.SimulatedIronic, h *metal3.BareMetalHost) history.Host {
	version := parseVersion(h.ResourceVersion)
	shown := history.Host{
		Name: h.Name, UID: string(h.UID), Version: version, Deleting: !h.DeletionTimestamp.IsZero(), Write: written(h), Hash: hashOf(h),
		State: string(h.Status.Provisioning.State), Image: h.Status.Provisioning.Image.URL, Trouble: h.Status.ErrorMessage, ID: h.Status.Provisioning.ID,
	}
	if bmc := ironic.BMC(h.Spec.BMC.Address); bmc != nil {
		shown.BMC = bmc.Address()
	}
	if i := h.Status.Ironic; i != nil {
		shown.Concealed = i.Unproven != ""
		shown.Node = &ironicsim.NodeVersion{
			UUID: i.NodeUUID, ProvisionState: i.ProvisionState, TargetProvisionState: i.TargetProvisionState, PowerState: i.PowerState,
			TargetPowerState: i.TargetPowerState, Maintenance: i.Maintenance, Reservation: i.Reservation, InstanceUUID: i.InstanceUUID,
		}
	}
	return shown
}

func written(h *metal3.BareMetalHost) history.Write {
	w := history.Write{Token: h.Annotations[tokenAnnotation], Online: h.Spec.Online}
	if h.Spec.Image != nil {
		w.Image = h.Spec.Image.URL
	}
	return w
}

// ramdisk are the options of an Ironic whose machines boot quickly.
var ramdisk = ironicsim.Options{
	AutoInspect: true, AutoDeploy: true, RamdiskDelay: 200 * time.Millisecond, CallbackTimeout: 10 * time.Second, MaxPowerTimeout: 5 * time.Second,
}

func imageOf(name string) *metal3.Image {
	return &metal3.Image{URL: "http://images/" + name, Checksum: strings.Repeat("a", 64), ChecksumType: metal3.SHA256, DiskFormat: ptr.To(metal3.Raw)}
}
