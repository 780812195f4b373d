// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	ironicregistry "github.com/metal3-io/metal3-apiserver/pkg/registry/ironic"
	metal3registry "github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

const (
	groupPath = "/apis/metal3.io/v1alpha1"
	hostsPath = groupPath + "/namespaces/metal3/baremetalhosts"
	namespace = "metal3"
)

// server is the whole API server on a real etcd, but without a cluster. Everybody has all
// permissions. Reads of hosts use a fake Refresher, actions the simulated Ironic.
type server struct {
	t      *testing.T
	url    string
	client *http.Client
	hosts  *store.Hosts // the recorded hosts
	live   *fakeLive
	ironic *simulatedIronic            // that of the server's flags
	others map[string]*simulatedIronic // those of IronicInstances, by name
	admit  *fakeAdmission
	// requested are the events about requests of users.
	requested requestEvents
}

// requestEvents are events about requests of users.
type requestEvents struct {
	mu     sync.Mutex
	events []string
}

// Requested implements baremetalhost.EventRecorder.
func (r *requestEvents) Requested(_ *metal3.BareMetalHost, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, reason+": "+message)
}

// take returns the events since the last call.
func (r *requestEvents) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// servingCert is the certificate of all servers here. A key of its own for each, an RSA key, would be a tenth of the CPU time.
var servingCert = sync.OnceValues(func() (dynamiccertificates.CertKeyContentProvider, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{{127, 0, 0, 1}}, nil)
	if err != nil {
		return nil, err
	}
	return dynamiccertificates.NewStaticCertKeyContent("testing", cert, key)
})

// startServer starts a server with the watch cache on, which is the default, or off.
func startServer(t *testing.T, watchCache bool) *server {
	t.Helper()
	s := &server{t: t, live: &fakeLive{}, ironic: startIronic(t), admit: &fakeAdmission{}}
	_, etcd := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)

	options := genericoptions.NewRecommendedOptions("/registry/test", apiserver.Codecs.LegacyCodec(apiserver.StorageVersions...))
	options.CoreAPI, options.Authentication, options.Authorization, options.Admission = nil, nil, nil, nil
	options.Features.EnablePriorityAndFairness = false
	options.Etcd.StorageConfig.Transport.ServerList = etcd.Transport.ServerList
	options.Etcd.StorageConfig.EncodeVersioner = apiserver.StorageVersions
	options.Etcd.EnableWatchCache = watchCache
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options.SecureServing.Listener = listener
	if options.SecureServing.ServerCert.GeneratedCert, err = servingCert(); err != nil {
		t.Fatal(err)
	}
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	apiserver.AddOpenAPI(generic, "test")
	if err := genericoptions.NewServerRunOptions().ApplyTo(&generic.Config); err != nil {
		t.Fatal(err)
	}
	if err := options.ApplyTo(generic); err != nil {
		t.Fatal(err)
	}
	generic.AdmissionControl = s.admit
	generic.ShutdownWatchTerminationGracePeriod = time.Second
	config := apiserver.Complete(generic)
	made, err := apiserver.New(config)
	if err != nil {
		t.Fatal(err)
	}
	stores, err := metal3registry.NewStores(apiserver.Scheme, config.RESTOptionsGetter, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.hosts = store.NewHosts(stores.Hosts)
	s.live.hosts, s.live.ironicOf, s.live.settings, s.live.components = s.hosts, s.ironicOf, metal3registry.Objects[*metal3.HostFirmwareSettings](stores.Kinds), metal3registry.Objects[*metal3.HostFirmwareComponents](stores.Kinds)
	cleanSteps, err := validation.AllowCleanSteps(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := apiserver.InstallAPIGroup(made, stores.Storage(apiserver.Scheme, metal3registry.Deps{Live: s.live, IronicOf: s.ironicOf, Admission: s.admit, Events: &s.requested, CleanSteps: cleanSteps}), 32<<20); err != nil {
		t.Fatal(err)
	}
	instances, err := ironicregistry.NewInstances(apiserver.Scheme, config.RESTOptionsGetter, "metal3-system")
	if err != nil {
		t.Fatal(err)
	}
	if err := apiserver.InstallIronicGroup(made, ironicregistry.Storage(t.Context(), func() []ironicregistry.NamedNodes { return []ironicregistry.NamedNodes{{Nodes: s.ironic.client}} }, s.hosts, instances, oneIronic{s.ironic.client}, "metal3-system", nil)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.PrepareRun().RunWithContext(ctx) }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.url = "https://" + listener.Addr().String()
	if s.client, err = rest.HTTPClientFor(s.config()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server is ready", func() bool {
		answer, err := s.client.Get(s.url + "/readyz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return s
}

// ironicOf returns the Ironic that is recorded of a host.
func (s *server) ironicOf(host *metal3.BareMetalHost) (baremetalhost.Ironic, error) {
	name := host.Status.Record.Ironic
	if name == "" {
		return s.ironic.client, nil
	}
	if other := s.others[name]; other != nil {
		return other.client, nil
	}
	return nil, &ironic.UnavailableError{Op: "finding the Ironic of a host", Reason: "there is no such IronicInstance"}
}

func (s *server) config() *rest.Config {
	return &rest.Config{Host: s.url, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

func (s *server) clientset() versioned.Interface {
	s.t.Helper()
	clients, err := versioned.NewForConfig(s.config())
	if err != nil {
		s.t.Fatal(err)
	}
	return clients
}

// answer is the answer to an HTTP request.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// status decodes an answer that must be a Status, like every error.
func (a answer) status(t *testing.T) metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal(a.body, &status); err != nil || status.Kind != "Status" {
		t.Fatalf("not a Status: %d %s", a.code, a.body)
	}
	return status
}

// into decodes an answer that must have the given code.
func (a answer) into(t *testing.T, code int, object any) {
	t.Helper()
	if a.code != code {
		t.Fatalf("got HTTP %d, want %d: %s", a.code, code, a.body)
	}
	reflect.ValueOf(object).Elem().SetZero() // fields that the answer omits must be empty
	if err := json.Unmarshal(a.body, object); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// do sends a request. Headers are "Name: value".
func (s *server) do(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		if h == "" {
			continue
		}
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, bytes.TrimSpace(content)}
}

const hostJSON = `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"NAME"},
	"spec":{"online":true,"bmc":{"address":"ipmi://192.168.111.1:6233","credentialsName":"NAME-bmc"}}}`

// create creates a host that is not registered.
func (s *server) create(t *testing.T, name string) *metal3.BareMetalHost {
	t.Helper()
	host := &metal3.BareMetalHost{}
	s.do(t, "POST", hostsPath, strings.ReplaceAll(hostJSON, "NAME", name)).into(t, http.StatusCreated, host)
	return host
}

// register creates a host that has a node in the Ironic of the server's flags, available and on unless change says
// otherwise.
func (s *server) register(t *testing.T, name string, change func(*metal3.BareMetalHost, *ironic.Node)) *metal3.BareMetalHost {
	t.Helper()
	return s.registerIn(t, "", s.ironic, name, change)
}

// registerIn creates a host that has a node in the Ironic of an IronicInstance.
func (s *server) registerIn(t *testing.T, instance string, in *simulatedIronic, name string, change func(*metal3.BareMetalHost, *ironic.Node)) *metal3.BareMetalHost {
	t.Helper()
	s.create(t, name)
	host := s.recorded(t, name)
	host.Status.Record.Ironic = instance
	host.Status.Provisioning.ID = in.addNode(t, name)
	if change != nil {
		in.edit(t, host.Status.Provisioning.ID, func(node *ironic.Node) { change(host, node) })
	}
	spec := host.DeepCopy()
	host, err := s.hosts.Record(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	host.Spec = spec.Spec
	if host, err = s.hosts.Update(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	return host
}

// recorded returns a host as it is in etcd.
func (s *server) recorded(t *testing.T, name string) *metal3.BareMetalHost {
	t.Helper()
	host, err := s.hosts.Get(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("timed out waiting for: %s", what)
	}
}

// fakeLive is a Refresher that records an error message for a host as if it came from Ironic, or
// returns an error as if Ironic were away. The test sets either.
type fakeLive struct {
	hosts      *store.Hosts
	ironicOf   baremetalhost.IronicOf
	settings   *store.Objects[*metal3.HostFirmwareSettings]
	components *store.Objects[*metal3.HostFirmwareComponents]

	mu       sync.Mutex
	messages map[string]string
	away     error
	// unproven is what keeps nodes from being shown, and unconfirmable what keeps them from being taken over.
	unproven, unconfirmable string
	// notTaken is why no Ironic takes a host from another one.
	notTaken string
	// onProof is called when it is asked whether a node is the host's; it may be nil.
	onProof func()
}

// proving sets what is called when it is asked whether a node is the host's, just after Ironic has returned it.
func (l *fakeLive) proving(call func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onProof = call
}

// prove sets why nothing is shown of nodes, and why they cannot be taken over.
func (l *fakeLive) prove(unproven, unconfirmable string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unproven, l.unconfirmable = unproven, unconfirmable
}

func (l *fakeLive) WhyUnproven(context.Context, *metal3.BareMetalHost, *ironic.Node) (string, error) {
	l.mu.Lock()
	unproven, onProof := l.unproven, l.onProof
	l.mu.Unlock()
	if onProof != nil {
		onProof()
	}
	return unproven, nil
}

func (l *fakeLive) WhyUnconfirmable(context.Context, *metal3.BareMetalHost, *ironic.Node) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unconfirmable, nil
}

// WhyNotTaken says what refuse was told, of the Ironics that there are.
func (l *fakeLive) WhyNotTaken(_ context.Context, name string, _ *metal3.BareMetalHost) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name == "nowhere" {
		return "", &ironic.UnavailableError{Op: "find the host's Ironic", Reason: `IronicInstance "nowhere" does not exist`}
	}
	return l.notTaken, nil
}

// refuse has no Ironic take a host.
func (l *fakeLive) refuse(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notTaken = why
}

func (l *fakeLive) say(name, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.messages == nil {
		l.messages = map[string]string{}
	}
	l.messages[name] = message
}

// leave makes each refresh fail with reason. An empty reason means that Ironic is back.
func (l *fakeLive) leave(reason string) {
	if reason == "" {
		l.fail(nil)
	} else {
		l.fail(errors.New(reason))
	}
}

// ObserveNode reads the node of a host and records nothing.
func (l *fakeLive) ObserveNode(ctx context.Context, host *metal3.BareMetalHost) (*ironic.Node, error) {
	asked, err := l.ironicOf(host)
	if err != nil {
		return nil, err
	}
	return asked.GetNode(ctx, host.Status.Provisioning.ID)
}

// fail makes each refresh fail with err.
func (l *fakeLive) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = err
}

func (l *fakeLive) RefreshHost(ctx context.Context, namespace, name string) error {
	l.mu.Lock()
	message, known := l.messages[name]
	away := l.away
	l.mu.Unlock()
	if away != nil {
		return away
	}
	if !known {
		return nil
	}
	if host, err := l.hosts.Get(ctx, namespace, name); err != nil || host.Status.ErrorMessage == message {
		return err
	}
	return record(ctx, l.hosts, namespace, name, func(s *metal3.BareMetalHostStatus) { s.ErrorMessage = message })
}

func (l *fakeLive) ReadHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	return nil, l.RefreshHost(ctx, namespace, name)
}

// RefreshSettings records the message for the host of the settings' name as the value of a setting.
func (l *fakeLive) RefreshSettings(ctx context.Context, namespace, name string) error {
	l.mu.Lock()
	message, known := l.messages[name]
	away := l.away
	l.mu.Unlock()
	if away != nil {
		return away
	}
	if !known {
		return nil
	}
	recorded, err := l.settings.Get(ctx, namespace, name)
	if err != nil || recorded.Status.Settings["Said"] == message {
		return err
	}
	recorded.Status.Settings = metal3.SettingsMap{"Said": message}
	_, err = l.settings.UpdateStatus(ctx, recorded)
	return err
}

// RefreshAllSettings does the same for all settings.
func (l *fakeLive) RefreshAllSettings(ctx context.Context, namespace string) error {
	list, err := l.settings.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range list.(*metal3.HostFirmwareSettingsList).Items {
		if namespace == "" || namespace == item.Namespace {
			err = errors.Join(err, l.RefreshSettings(ctx, item.Namespace, item.Name))
		}
	}
	return err
}

// RefreshComponents records the message for the host of the components' name as the version of its BIOS.
func (l *fakeLive) RefreshComponents(ctx context.Context, namespace, name string) error {
	l.mu.Lock()
	message, known := l.messages[name]
	away := l.away
	l.mu.Unlock()
	if away != nil {
		return away
	}
	if !known {
		return nil
	}
	recorded, err := l.components.Get(ctx, namespace, name)
	if err != nil || len(recorded.Status.Components) > 0 && recorded.Status.Components[0].CurrentVersion == message {
		return err
	}
	recorded.Status.Components = []metal3.FirmwareComponentStatus{{Component: "bios", CurrentVersion: message}}
	_, err = l.components.UpdateStatus(ctx, recorded)
	return err
}

// RefreshAllComponents does the same for all components.
func (l *fakeLive) RefreshAllComponents(ctx context.Context, namespace string) error {
	list, err := l.components.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range list.(*metal3.HostFirmwareComponentsList).Items {
		if namespace == "" || namespace == item.Namespace {
			err = errors.Join(err, l.RefreshComponents(ctx, item.Namespace, item.Name))
		}
	}
	return err
}

func (l *fakeLive) RefreshAll(ctx context.Context, _ string) error {
	all, err := l.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, host := range all.Items {
		if err := l.RefreshHost(ctx, host.Namespace, host.Name); err != nil {
			return err
		}
	}
	return nil
}

func (*fakeLive) RedactPassword(context.Context, *metal3.BareMetalHost, *ironic.Node) error {
	return nil
}

// Preview is tested with the engine.
func (*fakeLive) Preview(_ context.Context, obj runtime.Object) (string, error) {
	return fmt.Sprintf("a preview of %T,\twhich a BMC has given a tab", obj), nil // a header has none
}

func (*fakeLive) Guard(ctx context.Context, _ *metal3.BareMetalHost) context.Context { return ctx }

// record writes the status of a host, as the engine does.
func record(ctx context.Context, hosts *store.Hosts, namespace, name string, change func(*metal3.BareMetalHostStatus)) error {
	for {
		host, err := hosts.Get(ctx, namespace, name)
		if err != nil {
			return err
		}
		change(&host.Status)
		if _, err := hosts.Record(ctx, host); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// fakeAdmission refuses requests for the resource that the test sets.
type fakeAdmission struct {
	mu     sync.Mutex
	refuse string // a resource and subresource
	seen   []admission.Attributes
}

func (*fakeAdmission) Handles(admission.Operation) bool { return true }

func (f *fakeAdmission) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, a)
	if f.refuse != "" && f.refuse == a.GetResource().Resource+"/"+a.GetSubresource() {
		return admission.NewForbidden(a, errors.New("not on a Friday"))
	}
	return nil
}

func (f *fakeAdmission) set(refuse string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse, f.seen = refuse, nil
}
