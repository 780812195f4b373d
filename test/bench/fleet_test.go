package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// fleet is a number of machines, a real Ironic for them, and a server.
type fleet struct {
	stops    []func() error
	ironic   *testbed.DebianIronic
	machines *bmcsim.Sim
	server   *testbed.Server
	hosts    typed.BareMetalHostInterface
	hardware typed.HardwareDataInterface
}

const fleetNamespace = "fleet"

// userData goes into the config drive of each host.
const userData = "#cloud-config\n"

// newFleet returns what it has started also when it fails, to be stopped.
func newFleet(ctx context.Context) (*fleet, error) {
	f := &fleet{}
	dir, err := os.MkdirTemp(shared.dir, "fleet-")
	if err != nil {
		return f, err
	}
	release := os.Getenv("IRONIC")
	if simulatedIronic() {
		release = "trixie"
	}
	if f.ironic, err = testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: release, Dir: dir}); err != nil {
		return f, err
	}
	f.machines, err = bmcsim.Start(bmcsim.Options{Machines: fleetSize, IronicURL: f.ironic.Endpoint})
	if err != nil {
		return f, errors.Join(err, f.ironic.Close())
	}
	f.stops = append(f.stops, f.ironic.Close, f.machines.Close)
	f.server, err = testbed.StartServer(ctx, testbed.ServerOptions{
		Kube: shared.kube, Dir: dir, IronicEndpoint: f.ironic.Endpoint,
		Args: []string{
			"--deploy-kernel-url=" + f.machines.FileURL(bmcsim.KernelFile),
			"--deploy-ramdisk-url=" + f.machines.FileURL(bmcsim.RamdiskFile),
		},
	})
	if err != nil {
		return f, err
	}
	f.stops = append([]func() error{func() error { _, err := f.server.Stop(); return err }}, f.stops...)
	return f, f.prepare(ctx)
}

// prepare makes the namespace and the Secrets.
func (f *fleet) prepare(ctx context.Context) error {
	hosts, err := versioned.NewForConfig(unlimited(f.server.Direct.Config))
	if err != nil {
		return err
	}
	f.hosts = hosts.Metal3V1alpha1().BareMetalHosts(fleetNamespace)
	f.hardware = hosts.Metal3V1alpha1().HardwareData(fleetNamespace)
	core, err := kubernetes.NewForConfig(unlimited(shared.kube.Admin.Config))
	if err != nil {
		return err
	}
	_, err = core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for name, data := range map[string]map[string]string{
		"bmc":       {"username": f.machines.Machine(0).Username(), "password": f.machines.Machine(0).Password()},
		"user-data": {"userData": userData},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
		if _, err := core.CoreV1().Secrets(fleetNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	_, err = f.server.Stop()
	return err
}

func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

func (f *fleet) stop() error {
	var errs []error
	for _, stop := range f.stops {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// lead starts the server again and waits until it is at work.
func (f *fleet) lead(ctx context.Context) error {
	const says = "Driving Ironic from the specs"
	before, err := f.server.Logs()
	if err != nil {
		return err
	}
	if err := f.server.Start(ctx); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		now, err := f.server.Logs()
		return strings.Count(now, says) > strings.Count(before, says), err
	})
}

// byServer creates the hosts, image and all, and watches them. The server is
// stopped before and afterwards: it would poll Ironic while a client is measured.
func (f *fleet) byServer(ctx context.Context) (progress, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := f.lead(ctx); err != nil {
		return progress{}, err
	}
	p, err := f.watchHosts(ctx)
	if err == nil {
		err = f.detachAll(ctx)
	}
	_, stopErr := f.server.Stop()
	return p, errors.Join(err, stopErr)
}

func (f *fleet) watchHosts(ctx context.Context) (progress, error) {
	list, err := f.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return progress{}, err
	}
	events, err := f.hosts.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return progress{}, err
	}
	defer events.Stop()
	began := time.Now()
	creating, creatingCtx := errgroup.WithContext(ctx)
	for i := range fleetSize {
		creating.Go(func() error {
			_, err := f.hosts.Create(creatingCtx, f.host(i), metav1.CreateOptions{})
			return err
		})
	}
	p, err := follow(events, began)
	return p, errors.Join(creating.Wait(), err)
}

func (f *fleet) host(i int) *metal3.BareMetalHost {
	machine := f.machines.Machine(i)
	return &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: fleetHost(i)},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BootMACAddress: machine.MAC(),
			BMC: metal3.BMCDetails{Address: machine.Address(), CredentialsName: "bmc"},
			Image: &metal3.Image{
				URL: f.machines.FileURL(bmcsim.ImageFile), Checksum: f.machines.FileChecksum(bmcsim.ImageFile),
				ChecksumType: metal3.SHA256, DiskFormat: ptr.To(metal3.Raw),
			},
			UserData: &corev1.SecretReference{Name: "user-data", Namespace: fleetNamespace},
		},
	}
}

// follow notes when each host was first seen available and provisioned.
func follow(events watch.Interface, began time.Time) (progress, error) {
	var p progress
	available, last := map[string]bool{}, map[string]string{}
	for event := range events.ResultChan() {
		host, ok := event.Object.(*metal3.BareMetalHost)
		if !ok {
			return p, fmt.Errorf("the watch says %s: %v", event.Type, event.Object)
		}
		took, state := time.Since(began), host.Status.Provisioning.State
		arrived := state == metal3.StateAvailable || state == metal3.StateProvisioning || state == metal3.StateProvisioned
		if arrived && !available[host.Name] {
			available[host.Name] = true
			p.available = append(p.available, took)
		}
		if state == metal3.StateProvisioned && last[host.Name] != string(state) {
			p.provisioned = append(p.provisioned, took)
		}
		last[host.Name] = string(state)
		if len(p.provisioned) == fleetSize {
			return p, nil
		}
		if host.Status.ErrorMessage != "" {
			last[host.Name] += ": " + host.Status.ErrorMessage
		}
	}
	return p, fmt.Errorf("not all hosts were provisioned before the watch ended: %v", last)
}

// clear takes out of Ironic what a client has left there, and switches the machines off.
func (f *fleet) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	// By name: a LIST leaves out nodes that Ironic 29.0 has made their own parents.
	operator := f.ironic.Operator()
	for i := range fleetSize {
		// In maintenance a node is deleted from any state.
		err := operator.SetMaintenance(ctx, clientNode(i), true, "bench")
		if err == nil {
			err = operator.DeleteNode(ctx, clientNode(i))
		}
		if err != nil && !testbed.IsNotFound(err) {
			return err
		}
	}
	for _, machine := range f.machines.Machines() {
		machine.SetPower(bmcsim.Off)
	}
	return nil
}

// detachAll has the server let go of its hosts as they are, and deletes all of them.
func (f *fleet) detachAll(ctx context.Context) error {
	list, err := f.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, host := range list.Items {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"bench"}}}`, metal3.DetachedAnnotation)
		if _, err := f.hosts.Patch(ctx, host.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	deleted := false
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := f.hosts.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, host := range list.Items {
			if host.Status.OperationalStatus != metal3.OperationalStatusDetached && !deleted {
				return false, nil
			}
		}
		if !deleted {
			deleted = true
			return false, f.hosts.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}
		return len(list.Items) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("hosts that the server does not let go of: %w", err)
	}
	// Nobody collects garbage here, and a host whose hardware is known is not inspected.
	return f.hardware.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}
