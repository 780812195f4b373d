// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// roomCount is the number of Ironics of rooms, and roomNamespaces that of the namespaces with the hosts of each.
const roomCount, roomNamespaces = 10, 10

// rooms are as many hosts as several Ironics have, behind one server: each room has an Ironic, the first of them that of
// the server's flags. The hosts are provisioned, and differ from each other in names, addresses and hardware only: one
// of them was taken all the way by the server, and its record and its node were copied. The copies are paused: what it takes
// to look after so many hosts is measured, and not what is done to them.
type rooms struct {
	*bed
	sims []*ironicsim.Sim
	// hostsPerNamespace is the number of hosts in each namespace.
	hostsPerNamespace int
	// start is how long the server took until it was ready, and live is how long until it answered a list of a namespace live.
	start, live time.Duration
	// patches counts what was changed in Ironic.
	patches int
}

func roomName(room int) string { return fmt.Sprintf("room-%02d", room) }

// roomNamespace is a namespace of a room.
func roomNamespace(room, n int) string { return fmt.Sprintf("room-%02d-%02d", room, n) }

// place says where host i is.
func (r *rooms) place(i int) (room int, namespace string) {
	n := i / r.hostsPerNamespace
	return n / roomNamespaces, roomNamespace(n/roomNamespaces, n%roomNamespaces)
}

// path is that of the hosts of a namespace.
func pathIn(namespace string) string {
	return "/apis/metal3.io/v1alpha1/namespaces/" + namespace + "/baremetalhosts"
}

const allHostsPath = "/apis/metal3.io/v1alpha1/baremetalhosts"

// newRooms starts as many Ironics as there are rooms, and a server with that many hosts altogether. What it has started is stopped
// by stop, also when it fails.
func newRooms(ctx context.Context, hosts int) (*rooms, error) {
	r := &rooms{bed: &bed{hostsPath: allHostsPath}, hostsPerNamespace: hosts / roomCount / roomNamespaces}
	if r.hostsPerNamespace == 0 {
		return r, fmt.Errorf("%d hosts are fewer than there are namespaces", hosts)
	}
	var err error
	if r.dir, err = os.MkdirTemp(shared.dir, "rooms-"); err != nil {
		return r, err
	}
	for range roomCount {
		// Polls of the power of 100,000 machines would be heard here.
		sim := ironicsim.New(ironicsim.Options{PowerSyncInterval: -1, PowerRecoveryInterval: -1, AutoInspect: true, AutoDeploy: true, RamdiskDelay: time.Millisecond})
		r.stops = append(r.stops, func() error { sim.Close(); return nil })
		if err := sim.Start(0); err != nil {
			return r, err
		}
		r.sims = append(r.sims, sim)
	}
	r.endpoint = r.sims[0].URL()
	if err := r.createNamespaces(ctx); err != nil {
		return r, err
	}
	if err := r.startServer(ctx, testbed.UnusedRamdiskArgs...); err != nil {
		return r, err
	}
	if err := r.createInstances(ctx); err != nil {
		return r, err
	}
	original, err := r.createOriginal(ctx)
	if err != nil {
		return r, err
	}
	stored, err := r.storedKey(ctx, original)
	if err != nil {
		return r, err
	}
	if _, err := r.server.Stop(); err != nil {
		return r, err
	}
	if err := r.fill(ctx, original, stored); err != nil {
		return r, err
	}
	for _, sim := range r.sims {
		sim.SetFaults(ironicsim.Faults{LatencyPerNode: 150 * time.Microsecond})
	}
	began := time.Now()
	if err := r.server.Start(ctx); err != nil {
		return r, err
	}
	r.start = time.Since(began)
	if err := waitLive(ctx, r.direct); err != nil {
		return r, err
	}
	r.live = time.Since(began)
	return r, r.waitQuiet(ctx)
}

// waitLive waits until a server that has just started answers a list of a namespace live.
func waitLive(ctx context.Context, server *reader) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 15*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = server.read(ctx, pathIn(roomNamespace(0, 0)), nil, new(counter))
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("no list is live: %w", errors.Join(err, last))
	}
	return nil
}

func (r *rooms) createNamespaces(ctx context.Context) error {
	var objects []any
	for room := range roomCount {
		for n := range roomNamespaces {
			name := roomNamespace(room, n)
			objects = append(objects, corev1.Namespace{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"room": roomName(room)}},
			}, corev1.Secret{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: "bmc", Namespace: name},
				StringData: map[string]string{"username": "admin", "password": "password"},
			})
		}
	}
	return createAll(ctx, objects)
}

func (r *rooms) createInstances(ctx context.Context) error {
	var objects []any
	for room, sim := range r.sims[1:] {
		name := roomName(room + 1)
		objects = append(objects, object{
			"apiVersion": "ironic.metal3-apiserver.io/v1alpha1", "kind": "IronicInstance", "metadata": object{"name": name},
			"spec": object{"endpoint": sim.URL(), "namespaceSelector": object{"matchLabels": object{"room": name}}},
		})
	}
	return createAll(ctx, objects)
}

func createAll(ctx context.Context, objects []any) error {
	list, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": objects})
	if err == nil {
		_, _, err = shared.kube.Kubectl(ctx, string(list), "apply", "-f", "-")
	}
	return err
}

const (
	originalName  = "the-original"
	originalBMC   = "192.0.2.77"
	originalMAC   = "52:54:00:12:34:56"
	originalImage = "http://192.0.2.1/image.qcow2"
)

// createOriginal has the server provision a host.
func (r *rooms) createOriginal(ctx context.Context) (*metal3.BareMetalHost, error) {
	r.sims[0].AddBMC("ipmi://"+originalBMC, "admin", "password")
	clients, err := versioned.NewForConfig(r.server.Direct.Config)
	if err != nil {
		return nil, err
	}
	hosts := clients.Metal3V1alpha1().BareMetalHosts(roomNamespace(0, 0))
	host, err := hosts.Create(ctx, &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: originalName, Labels: map[string]string{"rack": "42"}},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BootMACAddress: originalMAC, AutomatedCleaningMode: metal3.CleaningModeDisabled,
			BMC:   metal3.BMCDetails{Address: "ipmi://" + originalBMC, CredentialsName: "bmc"},
			Image: &metal3.Image{URL: originalImage, Checksum: "abc", ChecksumType: metal3.SHA256},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		host, err = hosts.Get(ctx, originalName, metav1.GetOptions{})
		return err == nil && host.Status.Provisioning.State == metal3.StateProvisioned && host.Status.PoweredOn && host.Status.Ironic.Reservation == "", err
	})
	if err != nil {
		return nil, fmt.Errorf("the first host, in state %q (%s): %w", host.Status.Provisioning.State, host.Status.ErrorMessage, err)
	}
	return host, r.waitQuiet(ctx)
}

// storedKey is the key of a host in etcd.
func (b *bed) storedKey(ctx context.Context, host *metal3.BareMetalHost) (string, error) {
	answer, err := b.etcd.Get(ctx, "/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return "", err
	}
	for _, kv := range answer.Kvs {
		if key := string(kv.Key); strings.HasSuffix(key, "/baremetalhosts/"+host.Namespace+"/"+host.Name) {
			return key, nil
		}
	}
	return "", fmt.Errorf("host %s/%s is not in etcd", host.Namespace, host.Name)
}

// fill copies the host, with its key in etcd, and its node, while the server is stopped.
func (r *rooms) fill(ctx context.Context, original *metal3.BareMetalHost, key string) error {
	etcd, err := r.startEtcd(ctx)
	if err != nil {
		return err
	}
	node := r.sims[0].Snapshot()
	group, filling := errgroup.WithContext(ctx)
	group.SetLimit(4)
	total := r.hostsPerNamespace * roomCount * roomNamespaces
	r.nodes = make([]string, total)
	const batch = 50 // a transaction of etcd has 128 operations and 1.5 MB at most
	for first := 0; first < total; first += batch {
		group.Go(func() error {
			var puts []clientv3.Op
			for i := first; i < min(first+batch, total); i++ {
				put, err := r.copyHost(i, original, key, node)
				if err != nil {
					return err
				}
				puts = append(puts, put)
			}
			_, err := r.etcd.Txn(filling).Then(puts...).Commit()
			return err
		})
	}
	err = group.Wait()
	if err == nil {
		_, err = r.etcd.Delete(ctx, key)
	}
	return errors.Join(err, r.sims[0].LoseNode(original.Status.Provisioning.ID), etcd())
}

// copyHost makes the node of host i, and returns what stores the host.
func (r *rooms) copyHost(i int, original *metal3.BareMetalHost, key string, node *ironicsim.Snapshot) (clientv3.Op, error) {
	room, namespace := r.place(i)
	uuid, uid := newUUID(), newUUID()
	r.nodes[i] = uuid
	rename := strings.NewReplacer(
		original.Status.Provisioning.ID, uuid, string(original.UID), uid, original.Name, hostName(i), original.Namespace, namespace,
		originalBMC, bmcAddress(i), originalMAC, macAddress(i, 0),
	).Replace
	if err := r.sims[room].AddCopy(node, time.Duration(i)*time.Second, func(text string) string {
		if renamed := rename(text); renamed != text || !isUUID(text) {
			return renamed
		}
		return newUUID() // of a port
	}); err != nil {
		return clientv3.Op{}, err
	}
	r.sims[room].AddBMC("ipmi://"+bmcAddress(i), "admin", "password")
	text, err := json.Marshal(original)
	if err != nil {
		return clientv3.Op{}, err
	}
	var host metal3.BareMetalHost
	if err := json.Unmarshal([]byte(rename(string(text))), &host); err != nil {
		return clientv3.Op{}, err
	}
	host.TypeMeta = metav1.TypeMeta{APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost"}
	host.ResourceVersion = "" // etcd knows it
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, metal3.PausedAnnotation, "bench")
	host.Status.HardwareDetails = hardware(i)
	if room > 0 {
		host.Status.Record.Ironic, host.Status.Ironic.Instance = roomName(room), roomName(room)
	}
	value, err := json.Marshal(host)
	return clientv3.OpPut(rename(key), string(value)), err
}

// startEtcd starts an etcd with the data of the server, which is stopped. The returned function stops it.
func (r *rooms) startEtcd(ctx context.Context) (stop func() error, err error) {
	root, err := testbed.RepoRoot()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(r.dir, "etcd.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // etcd has its own copy
	socket := "unix://" + filepath.Join(r.server.DataDir(), "etcd.sock")
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "etcd"), "--name=metal3-apiserver", "--data-dir="+filepath.Join(r.server.DataDir(), "etcd"),
		"--listen-client-urls="+socket, "--advertise-client-urls="+socket, "--listen-peer-urls=unix://"+filepath.Join(r.dir, "peer.sock"),
		"--unsafe-no-fsync", "--quota-backend-bytes=8589934592", "--snapshot-count=1000", "--log-level=warn")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it ends with the signal
		return nil
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := r.etcd.Get(short, "ready")
		return err == nil, ctx.Err()
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("etcd is not ready, see %s: %w", log.Name(), err), stop())
	}
	return stop, nil
}

func isUUID(text string) bool { return len(text) == 36 && strings.Count(text, "-") == 4 }

func newUUID() string {
	a, b := rand.Uint64(), rand.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}

// changeRoom changes what node i says, of which nothing is done to the machine. It returns the text by which a reader knows it.
func (r *rooms) changeRoom(i int) (mark string, err error) {
	r.patches++
	mark = changeMark(int64(r.patches))
	room, _ := r.place(i)
	return mark, r.sims[room].SetNode(r.nodes[i], map[string]any{"maintenance": true, "maintenance_reason": mark})
}

// requests are those to all Ironics so far.
func (r *rooms) requests() (total int) {
	for _, sim := range r.sims {
		total += sim.Stats().Total
	}
	return total
}
