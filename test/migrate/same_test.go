// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestSameAsOperator takes the same steps with hosts of a real Bare Metal Operator (BMO, BMO_CRDS) and with hosts of this server, each
// beside a simulated Ironic of its own, and compares what users and Ironic see of them. What differs must be in the tables of
// differences, with its reason. Run by hand, best with -parallel 100.
func TestSameAsOperator(t *testing.T) {
	program, definitions := os.Getenv("BMO"), os.Getenv("BMO_CRDS")
	if program == "" || definitions == "" {
		t.Skip("BMO and BMO_CRDS are not set")
	}
	theirs, ours := operatorSide(t, program, definitions), serverSide(t)
	for number, name := range slices.Sorted(maps.Keys(lives)) {
		t.Run(name, func(t *testing.T) {
			if lives[name].claims && !theirs.hasClaims {
				t.Skip("this operator has no HostClaims")
			}
			t.Parallel()
			newPair(t, number, lives[name], theirs, ours).run(t)
		})
	}
}

// side is a cluster with its Ironic.
type side struct {
	name      string
	metal3    versioned.Interface
	core      kubernetes.Interface
	ironic    *testbed.SimulatedIronic
	hasClaims bool
}

func ironicOfSide(t *testing.T) *testbed.SimulatedIronic {
	t.Helper()
	ironic, err := testbed.StartSimulatedIronic(ironicsim.Options{AutoInspect: true, AutoDeploy: true, WithoutDefects: true, DefaultRamdisk: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ironic.Close)
	return ironic
}

// operatorSide is the suite's cluster with the operator.
func operatorSide(t *testing.T, program, definitions string) *side {
	t.Helper()
	kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", definitions)
	kubectl(t, "wait", "--for=condition=Established", "--timeout=5m", "-f", definitions)
	ironic := ironicOfSide(t)
	flags, _ := exec.CommandContext(t.Context(), program, "--help").CombinedOutput() // it ends with an error
	hasClaims := strings.Contains(string(flags), "-hostclaims")
	o := &operatorProgram{t: t, path: program, ironic: ironic.URL(), claims: hasClaims}
	o.start()
	return &side{name: "operator", metal3: s.Metal3, core: s.Core, ironic: ironic, hasClaims: hasClaims}
}

// serverSide is another cluster, with this server.
func serverSide(t *testing.T) *side {
	t.Helper()
	kube, err := testbed.StartKube(t.Context(), testbed.KubeOptions{Dir: t.TempDir(), ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.Stop(); err != nil {
			t.Error(err)
		}
	})
	ironic := ironicOfSide(t)
	server, err := testbed.StartServer(t.Context(), testbed.ServerOptions{
		Kube: kube, Dir: t.TempDir(), IronicEndpoint: ironic.URL(), Args: append(slices.Clone(testbed.UnusedRamdiskArgs), "--provisioning-limit=100"), ReadTimeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	side := &side{name: "server", ironic: ironic}
	if side.metal3, err = versioned.NewForConfig(kube.Admin.Config); err != nil {
		t.Fatal(err)
	}
	if side.core, err = kubernetes.NewForConfig(kube.Admin.Config); err != nil {
		t.Fatal(err)
	}
	return side
}

// pair is a host of the operator, and its twin of this server.
type pair struct {
	life life
	both [2]*player
}

func newPair(t *testing.T, number int, life life, sides ...*side) *pair {
	t.Helper()
	p := &pair{life: life}
	for i, side := range sides {
		p.both[i] = newPlayer(t, side, number, life)
	}
	return p
}

// run has both take each step before one of them takes the next.
func (p *pair) run(t *testing.T) {
	t.Helper()
	for i, step := range p.life.steps {
		var playing sync.WaitGroup
		for _, player := range p.both {
			playing.Go(func() { player.take(t, i, step) })
		}
		playing.Wait()
		if t.Failed() {
			return
		}
	}
	p.compare(t)
}

// settling is how long two outcomes may take to become the same: the operator looks at its hosts once a minute.
const settling = 90 * time.Second

func (p *pair) compare(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settling)
	defer cancel()
	for {
		theirs, ours := p.both[0].outcome(t), p.both[1].outcome(t)
		differences := differing(theirs, ours, p.life.differs)
		if len(differences) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("the operator (-) and this server (+) differ:\n%s", strings.Join(differences, "\n"))
			return
		case <-time.After(time.Second):
		}
	}
}

// player takes the steps of a life with one host.
type player struct {
	*side
	ns     string
	hosts  typed.BareMetalHostInterface
	host   *metal3.BareMetalHost
	mu     sync.Mutex
	states []string // in which it was seen
	node   string   // the UUID of its last node
}

func newPlayer(t *testing.T, side *side, number int, life life) *player {
	t.Helper()
	ctx := t.Context()
	ns, err := side.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "same-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]map[string]string{
		"bmc": {"username": "root", "password": "calvin"}, "wrong": {"username": "root", "password": "hobbes"}, "incomplete": {"username": "root"},
		"user-data": {"userData": "#cloud-config"}, "network-data": {"networkData": "{}"}, "meta-data": {"metaData": "{}"},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
		if _, err := side.core.CoreV1().Secrets(ns.Name).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	address := fmt.Sprintf(life.addressFormat(), 20000+number)
	bmc := side.ironic.AddBMC(address, "root", "calvin")
	if life.isOn {
		bmc.SetPower("power on")
	}
	p := &player{side: side, ns: ns.Name, hosts: side.metal3.Metal3V1alpha1().BareMetalHosts(ns.Name), host: &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: "host", Namespace: ns.Name},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BootMACAddress: fmt.Sprintf("52:54:00:aa:00:%02x", number), BMC: metal3.BMCDetails{Address: address, CredentialsName: "bmc"},
		},
	}}
	p.watch(t)
	return p
}

// watch notes the states in which the host is seen, until the test ends.
func (p *player) watch(t *testing.T) {
	t.Helper()
	watch, err := p.metal3.Metal3V1alpha1().BareMetalHosts(p.ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		watch.Stop()
		<-done
	})
	go func() { // until watch is stopped
		defer close(done)
		for event := range watch.ResultChan() {
			if host, ok := event.Object.(*metal3.BareMetalHost); ok {
				p.note(host)
			}
		}
	}()
}

func (p *player) note(host *metal3.BareMetalHost) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := host.Status.Provisioning.ID; id != "" {
		p.node = id
	}
	state := fmt.Sprintf("%s %s %s", host.Status.Provisioning.State, host.Status.OperationalStatus, host.Status.ErrorType)
	if host.Status.OperationalStatus != "" && !slices.Contains(p.states, state) {
		p.states = append(p.states, state)
	}
}

// take takes a step, and waits until the host is as it says.
func (p *player) take(t *testing.T, number int, step lifeStep) {
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	var err error
	switch {
	case number == 0:
		_, err = p.hosts.Create(ctx, patched(t, p.host, step.patch), metav1.CreateOptions{})
	case step.act != nil:
		err = step.act(ctx, p)
	default:
		_, err = p.hosts.Patch(ctx, p.host.Name, types.MergePatchType, []byte(step.patch), metav1.PatchOptions{})
	}
	if err != nil {
		t.Errorf("%s, step %d: %v", p.name, number, err)
		return
	}
	p.await(t, ctx, number, step)
}

func (p *player) await(t *testing.T, ctx context.Context, number int, step lifeStep) {
	for {
		host, err := p.hosts.Get(ctx, p.host.Name, metav1.GetOptions{})
		if step.gone && apierrors.IsNotFound(err) || err == nil && !step.gone && p.isAs(ctx, host, step) {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("%s, step %d: it never becomes as wanted: %v, %+v", p.name, number, err, host)
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (p *player) isAs(ctx context.Context, host *metal3.BareMetalHost, step lifeStep) bool {
	return (step.then == nil || step.then(host)) && (step.until == nil || step.until(ctx, p))
}
