// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
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
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// fleet is a number of machines, a real Ironic for them, and a server.
type fleet struct {
	size  int
	stops []func() error
	// proxy is between the server and Ironic, nil if nothing is to be counted.
	proxy    *ironicProxy
	ironic   *testbed.DebianIronic
	machines *bmcsim.Sim
	server   *testbed.Server
	hosts    typed.BareMetalHostInterface
	hardware typed.HardwareDataInterface
}

const fleetNamespace = "fleet"

// userData goes into the config drive of each host.
const userData = "#cloud-config\n"

// manyAtOnce lifts the limits that Ironic has for the good of the machines around it.
const manyAtOnce = `[conductor]
workers_pool_size = 1500
max_concurrent_deploy = 2000
max_concurrent_clean = 2000
`

// rarely has Ironic do what it repeats for each node as rarely as in large installations, and not as often
// as other tests need it. With hundreds of nodes, it would do little else.
const rarely = `sync_power_state_interval = 600
check_provision_state_interval = 60
deploy_callback_timeout = 1800
clean_callback_timeout = 1800
inspect_wait_timeout = 1800
`

// fleetOptions are the choices of newFleet.
type fleetOptions struct {
	size int
	// counted has the server's requests to Ironic go through fleet.proxy.
	counted bool
	// args are added to the flags of the server.
	args []string
	// large has Ironic repeat things rarely.
	large bool
	// heartbeat is bmcsim's option of this name; 0 is its default. Each call takes Ironic 10 to 20 ms.
	heartbeat time.Duration
}

// newFleet starts an Ironic with machines and prepares the server, which does not
// run yet. It returns what it has started also when it fails, to be stopped.
func newFleet(ctx context.Context, options fleetOptions) (*fleet, error) {
	f := &fleet{size: options.size}
	dir, err := os.MkdirTemp(shared.dir, "fleet-")
	if err != nil {
		return f, err
	}
	conf := manyAtOnce
	if options.large {
		conf += rarely
	}
	if f.ironic, err = testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: *release, Dir: dir, ExtraConf: conf}); err != nil {
		return f, err
	}
	f.onStop(f.ironic.Close)
	if f.machines, err = bmcsim.Start(bmcsim.Options{Machines: f.size, IronicURL: f.ironic.Endpoint, Heartbeat: options.heartbeat}); err != nil {
		return f, err
	}
	f.onStop(f.machines.Close)
	endpoint := f.ironic.Endpoint
	if options.counted {
		if f.proxy, err = newIronicProxy(endpoint); err != nil {
			return f, err
		}
		f.onStop(func() error { f.proxy.Close(); return nil })
		endpoint = f.proxy.URL
	}
	f.server, err = testbed.StartServer(ctx, testbed.ServerOptions{
		Kube: shared.kube, Dir: dir, IronicEndpoint: endpoint,
		Args: append([]string{
			"--deploy-kernel-url=" + f.machines.FileURL(bmcsim.KernelFile),
			"--deploy-ramdisk-url=" + f.machines.FileURL(bmcsim.RamdiskFile),
		}, options.args...),
	})
	if err != nil {
		return f, err
	}
	f.onStop(func() error { _, err := f.server.Stop(); return err })
	return f, f.prepare(ctx)
}

// onStop says how to stop a part. What was started last is stopped first.
func (f *fleet) onStop(stop func() error) { f.stops = append([]func() error{stop}, f.stops...) }

// prepare makes the Secrets.
func (f *fleet) prepare(ctx context.Context) error {
	hosts, err := versioned.NewForConfig(f.server.Direct.Config)
	if err != nil {
		return err
	}
	f.hosts = hosts.Metal3V1alpha1().BareMetalHosts(fleetNamespace)
	f.hardware = hosts.Metal3V1alpha1().HardwareData(fleetNamespace)
	for name, data := range map[string]map[string]string{
		"bmc":       {"username": f.machines.Machine(0).Username(), "password": f.machines.Machine(0).Password()},
		"user-data": {"userData": userData},
	} {
		if err := applySecret(ctx, name, data); err != nil {
			return err
		}
	}
	_, err = f.server.Stop()
	return err
}

// applySecret makes a Secret in the namespace of the fleets, or changes it.
func applySecret(ctx context.Context, name string, data map[string]string) error {
	secret, err := json.Marshal(corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: fleetNamespace}, StringData: data,
	})
	if err == nil {
		_, _, err = shared.kube.Kubectl(ctx, string(secret), "apply", "-f", "-")
	}
	return err
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

// patience is how long a round may take. Ironic is what all wait for, and takes some
// two seconds for each host.
func (f *fleet) patience() time.Duration { return 5*time.Minute + time.Duration(f.size)*4*time.Second }

// byServer creates the hosts, image and all, and watches them. The server is
// stopped before and afterwards: it would poll Ironic while a client is measured.
func (f *fleet) byServer(ctx context.Context) (progress, error) {
	ctx, cancel := context.WithTimeout(ctx, f.patience())
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
	// It begins anew if the watch ends, as informers do.
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: f.hosts.Watch})
	if err != nil {
		return progress{}, err
	}
	defer events.Stop()
	began := time.Now()
	creating, creatingCtx := errgroup.WithContext(ctx)
	for i := range f.size {
		creating.Go(func() error {
			_, err := f.hosts.Create(creatingCtx, f.host(i), metav1.CreateOptions{})
			return err
		})
	}
	p, err := follow(events, began, f.size)
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
func follow(events watch.Interface, began time.Time, size int) (progress, error) {
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
		if len(p.provisioned) == size {
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
	ctx, cancel := context.WithTimeout(ctx, f.patience())
	defer cancel()
	// By name: a LIST leaves out nodes that Ironic 29.0 has made their own parents.
	operator := f.ironic.Operator()
	for i := range f.size {
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
