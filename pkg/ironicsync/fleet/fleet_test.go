// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// memoryInstances keeps IronicInstances in memory.
type memoryInstances struct {
	mu       sync.Mutex
	version  int
	byName   map[string]*api.IronicInstance
	watchers []*watch.RaceFreeFakeWatcher
	// hangs is set, before anything runs, if reads get no answer.
	hangs bool
}

func (m *memoryInstances) put(i *api.IronicInstance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	i = i.DeepCopy()
	i.ResourceVersion = strconv.Itoa(m.version)
	event := watch.Modified
	if former := m.byName[i.Name]; former == nil {
		event, i.CreationTimestamp = watch.Added, metav1.Now()
	} else {
		i.CreationTimestamp = former.CreationTimestamp
	}
	m.byName[i.Name] = i
	for _, w := range m.watchers {
		w.Action(event, i.DeepCopy())
	}
}

func (m *memoryInstances) remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.watchers {
		w.Delete(m.byName[name].DeepCopy())
	}
	delete(m.byName, name)
}

func (m *memoryInstances) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return nil, apierrors.NewServiceUnavailable("this fake only knows WatchList")
}

func (m *memoryInstances) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if m.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := watch.NewRaceFreeFake()
	for _, i := range m.byName {
		w.Add(i.DeepCopy())
	}
	w.Action(watch.Bookmark, &api.IronicInstance{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.Itoa(m.version + 1), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	m.watchers = append(m.watchers, w)
	return w, nil
}

// wires lead to simulated Ironics by the hosts of their URLs.
type wires struct {
	mu    sync.Mutex
	to    map[string]*enginetest.Ironic
	hangs map[string]bool
	asked map[string]int
}

func (w *wires) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	to, hangs := w.to[r.URL.Hostname()], w.hangs[r.URL.Hostname()]
	w.asked[r.URL.Hostname()]++
	w.mu.Unlock()
	switch {
	case hangs:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case to == nil:
		return nil, errors.New("nobody listens at " + r.URL.Host)
	}
	return to.Sim.Transport().RoundTrip(r)
}

func (w *wires) setHangs(host string, hangs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hangs[host] = hangs
}

func (w *wires) count(host string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[host]
}

// bench is a Fleet between memory and simulated Ironics: home, and by their names those of the instances.
type bench struct {
	*Fleet
	t         *testing.T
	instances *memoryInstances
	hosts     *enginetest.Hosts
	wires     *wires
	ctx       context.Context
	cancel    context.CancelFunc

	mu        sync.Mutex
	secrets   map[string]map[string][]byte
	labels    map[string]map[string]string // of Secrets
	secretErr error
	objects   map[string]map[string]any // Ironic objects by namespace and name
	objectErr error
}

const serverNamespace = "metal3-system"

const readerWait = enginetest.ReaderWait

// inBubble runs a test with a Fleet that runs, in a bubble, which fails a test that leaves a goroutine.
func inBubble(t *testing.T, rooms []string, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rooms)
		defer b.run()()
		test(t, b)
	})
}

func newBench(t *testing.T, rooms []string) *bench {
	b := &bench{
		t: t, instances: &memoryInstances{byName: map[string]*api.IronicInstance{}}, hosts: enginetest.NewHosts(),
		wires:   &wires{to: map[string]*enginetest.Ironic{}, hangs: map[string]bool{}, asked: map[string]int{}},
		secrets: map[string]map[string][]byte{}, labels: map[string]map[string]string{}, objects: map[string]map[string]any{},
	}
	for _, name := range append(rooms, "home") {
		b.wires.to[name] = enginetest.NewIronic(t, ironicsim.Options{})
	}
	flags := client.Config{Endpoint: "http://home:6385", Transport: b.wires}
	home, err := client.New(flags)
	if err != nil {
		t.Fatal(err)
	}
	b.ctx, b.cancel = context.WithCancel(t.Context())
	b.Fleet = New(b.ctx, Deps{
		Instances: b.instances, Namespace: serverNamespace, Secret: b.secret, IronicObject: b.object, HostsIn: b.hostsIn, Flags: flags, Home: home,
		Live: live.Deps{Hosts: b.hosts, Secrets: enginetest.NoSecret, Clock: clock.RealClock{}, Wait: readerWait, Cluster: enginetest.UnknownCluster},
	})
	return b
}

// run begins to follow the instances, and returns what ends everything.
func (b *bench) run() (end func()) {
	ended := make(chan struct{})
	go func() { defer close(ended); b.Run(b.ctx) }()
	return func() { b.cancel(); <-ended; b.Wait() }
}

// panicking is the key of a Secret that cannot be read without a panic.
const panicking = "panics"

func (b *bench) secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.secretErr != nil {
		return nil, b.secretErr
	}
	if namespace != serverNamespace {
		name = namespace + "/" + name
	}
	if data, has := b.secrets[name]; has {
		if _, bad := data[panicking]; bad {
			panic("an index is out of range")
		}
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: b.labels[name]}, Data: data}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

// setSecret writes a Secret with a password; an empty one deletes it. err is what reads of Secrets answer.
func (b *bench) setSecret(name, password string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.secretErr = err
	if password == "" {
		delete(b.secrets, name)
		return
	}
	b.secrets[name] = map[string][]byte{"username": []byte("metal3"), "password": []byte(password)}
}

// follow waits until the Fleet has followed a change of the instances.
func (b *bench) follow() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// settle waits until Secrets have been read again.
func (b *bench) settle() {
	time.Sleep(secretsInterval * 3 / 2)
	synctest.Wait()
}

// reason is why an instance cannot be used; empty if it can.
func (b *bench) reason(name string) string {
	_, err := b.Instance(name)
	if problem := new(Problem); errors.As(err, &problem) {
		return problem.Reason
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func (b *bench) member(name string) *Member {
	b.t.Helper()
	m, err := b.Instance(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

func withSecret(name string) func(*api.IronicInstanceSpec) {
	return func(spec *api.IronicInstanceSpec) { spec.CredentialsName = name }
}

func at(endpoint string) func(*api.IronicInstanceSpec) {
	return func(spec *api.IronicInstanceSpec) { spec.Endpoint = endpoint }
}

// TestSecretComesAndGoes: an instance is usable as long as its Secret is there, and for as long as nobody knows that it is gone.
func TestSecretComesAndGoes(t *testing.T) {
	inBubble(t, []string{"b"}, func(t *testing.T, b *bench) {
		b.instances.put(instance("b", withSecret("b")))
		b.follow()
		if got := b.reason("b"); got != api.SecretNotFoundReason || !slices.Equal(b.Unusable(), []string{"b"}) {
			t.Fatalf("without its Secret: %q, %v", got, b.Unusable())
		}
		observed := func(when string, want bool) {
			t.Helper()
			if last, known := b.LastObserved()["b"]; !known || last.IsZero() == want {
				t.Errorf("%s: known: %t, last observed at %s", when, known, last)
			}
		}
		observed("without its Secret", false)
		b.setSecret("b", "one", nil)
		b.settle()
		first := b.member("b")

		b.setSecret("b", "one", errors.New("etcd is away"))
		b.settle()
		if b.member("b") != first {
			t.Error("another Member while the Secret cannot be read")
		}
		_, changed := b.Members()
		b.setSecret("b", "two", nil)
		b.settle()
		second := b.member("b")
		if second.Client == first.Client || second.Refresher == first.Refresher {
			t.Error("the client, or the Refresher, is the one with the former password")
		}
		select {
		case <-changed:
		default:
			t.Error("nobody is told of the other Member")
		}
		asked := b.wires.count("b")
		if err := first.Refresher.RefreshAll(t.Context()); err == nil || b.wires.count("b") != asked {
			t.Errorf("the former Refresher goes on: %v, %d requests", err, b.wires.count("b")-asked)
		}

		observed("before it is observed", false)
		if err := second.Refresher.RefreshAll(t.Context()); err != nil {
			t.Error(err)
		}
		observed("when it was observed", true)

		b.setSecret("b", "", nil)
		b.settle()
		observed("when it cannot be used any more", false)
		if got := b.reason("b"); got != api.SecretNotFoundReason {
			t.Errorf("the Secret is deleted: %q", got)
		}
		if _, err := b.ClientOfInstance("b"); err == nil {
			t.Error("its client is still to be had")
		}

		b.instances.remove("b")
		b.follow()
		if last, known := b.LastObserved()["b"]; known {
			t.Errorf("it is deleted, and was last observed at %s", last)
		}
	})
}

// TestCloudsOfInstances: an instance with a cloud is used as the user in its own Secret, and never as that of the server's clouds.yaml.
// A clouds.yaml that cannot be used is a problem of its instance.
func TestCloudsOfInstances(t *testing.T) {
	const entry = "clouds:\n  metal: {auth: {auth_url: 'https://keystone.example.com', username: u, password: s3cret}}"
	own := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(own, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", own)
	inBubble(t, []string{"b"}, func(t *testing.T, b *bench) {
		b.instances.put(instance("b", withSecret("b"), func(spec *api.IronicInstanceSpec) { spec.Cloud = "metal" }))
		for name, content := range map[string]map[string][]byte{
			"without clouds.yaml": {"username": []byte("u"), "password": []byte("s3cret")},
			"empty":               {"clouds.yaml": []byte(" \n")},
			"without Keystone":    {"clouds.yaml": []byte("clouds: {metal: {auth_type: none}}")},
			"another cloud":       {"clouds.yaml": []byte("clouds: {other: {}}")},
		} {
			b.mu.Lock()
			b.secrets["b"] = content
			b.mu.Unlock()
			b.settle()
			if got := b.reason("b"); got != api.SecretInvalidReason {
				t.Errorf("%s: %q", name, got)
			}
		}
		b.mu.Lock()
		b.secrets["b"] = map[string][]byte{"clouds.yaml": []byte(entry)}
		b.mu.Unlock()
		b.settle()
		if got := b.reason("b"); got != "" {
			t.Errorf("with a clouds.yaml: %q", got)
		}
	})
}

// TestPanicOfOneInstance: it leaves the others and the process alone, and ends when its cause does.
func TestPanicOfOneInstance(t *testing.T) {
	inBubble(t, []string{"b", "c"}, func(t *testing.T, b *bench) {
		b.mu.Lock()
		b.secrets["b"] = map[string][]byte{panicking: nil}
		b.mu.Unlock()
		b.instances.put(instance("b", withSecret("b")))
		b.instances.put(instance("c"))
		b.follow()
		if got := b.reason("b"); got != api.UnusableReason {
			t.Errorf("its reason is %q", got)
		}
		b.member("c")
		b.setSecret("b", "one", nil)
		b.settle()
		b.member("b")
	})
}

// TestSpecChanges: another endpoint is another client; what only the leader needs is another Member with the same one.
func TestSpecChanges(t *testing.T) {
	limit := int32(3)
	for name, tt := range map[string]struct {
		change func(*api.IronicInstanceSpec)
		same   bool // client
	}{
		"endpoint": {at("http://c:6385"), false},
		"ca":       {func(spec *api.IronicInstanceSpec) { spec.CABundle = nil }, true},
		"ramdisk":  {func(spec *api.IronicInstanceSpec) { spec.Ramdisk = &api.IronicRamdisk{KernelURL: "http://k"} }, true},
		"request":  {func(spec *api.IronicInstanceSpec) { spec.RequestTimeout = &metav1.Duration{Duration: time.Minute} }, false},
		"read":     {func(spec *api.IronicInstanceSpec) { spec.ReadTimeout = &metav1.Duration{Duration: time.Second} }, false},
		"limit":    {func(spec *api.IronicInstanceSpec) { spec.ProvisioningLimit = &limit }, true},
		"selector": {withLabels(matching("rack", "1")), true},
		"default":  {byDefault, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []string{"b", "c"}, func(t *testing.T, b *bench) {
				b.instances.put(instance("b"))
				b.follow()
				former := b.member("b")
				changed := instance("b", tt.change)
				b.instances.put(changed)
				b.follow()
				now := b.member("b")
				nothing := name == "ca"
				if (now == former) != nothing || (now.Client == former.Client) != tt.same || (now.Refresher == former.Refresher) != tt.same {
					t.Errorf("same member: %v, client: %v, Refresher: %v", now == former, now.Client == former.Client, now.Refresher == former.Refresher)
				}
				if now.Spec.Endpoint != changed.Spec.Endpoint {
					t.Errorf("the Member has %+v", now.Spec)
				}
			})
		})
	}
}

// TestUnusableSelectsOthers: the selector of an instance that cannot be used counts as it is now.
func TestUnusableSelectsOthers(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bench) {
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rack": "1"}}}
		b.instances.put(instance("b", withSecret("missing"), withLabels(matching("rack", "1"))))
		b.follow()
		if _, problem := b.OwnerOf(host, labels.Set{}); !strings.Contains(problem, `"b"`) {
			t.Fatalf("the host of an unusable instance: %q", problem)
		}
		b.instances.put(instance("b", withSecret("missing"), withLabels(matching("rack", "2"))))
		b.follow()
		if name, problem := b.OwnerOf(host, labels.Set{}); name != "" || problem != "" {
			t.Errorf("the instance selects others now: %q, %q", name, problem)
		}
	})
}

// TestTwins: of two with one endpoint, the older is used; that of the flags is the oldest.
func TestTwins(t *testing.T) {
	inBubble(t, []string{"b", "c"}, func(t *testing.T, b *bench) {
		b.instances.put(instance("z", at("http://b:6385")))
		b.follow()
		time.Sleep(2 * time.Second)
		b.instances.put(instance("a", at("http://B:6385/v1/")))
		b.instances.put(instance("flags", at("http://home:6385/")))
		b.follow()
		for name, want := range map[string]string{"z": "", "a": api.SameEndpointReason, "flags": api.SameEndpointReason} {
			if got := b.reason(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		former := b.member("z")
		b.instances.remove("z")
		b.follow()
		if got := b.reason("a"); got != "" {
			t.Errorf("the other one is gone: %q", got)
		}
		if err := former.Refresher.RefreshAll(t.Context()); err == nil {
			t.Error("the Refresher of an instance that is gone goes on")
		}
		if _, err := b.ClientOfInstance("z"); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("the client of an instance that is gone: %v", err)
		}
		if members, _ := b.Members(); len(members) != 2 || members[0].Name != "" || members[1].Name != "a" {
			t.Errorf("members: %+v", members)
		}
	})
}
