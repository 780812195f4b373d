// SPDX-License-Identifier: Apache-2.0

package hostindex

import (
	"cmp"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/panics"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// The indexes of the informer. Each group is one more, by the host's Ironic and namespace.
const (
	byNodeUUID = "nodeUUID"
	bySecret   = "secret"
	byUID      = "uid"
	// byBMC has the hosts by the keys of their BMCs, and of those that they keep. A Redfish service may have thousands of systems, which
	// have nothing to do with each other.
	byBMC = "bmc"
	// byMachine has the hosts by lifecycle.MachineKeys.
	byMachine = "machine"
)

// ironicSeparator is between the names of an Ironic and of a namespace, neither of which can have it.
const ironicSeparator = "/"

// ListWatcher lists and watches the recorded hosts.
type ListWatcher interface {
	List(ctx context.Context, options metav1.ListOptions) (*metal3.BareMetalHostList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Group is a name for the hosts that meet a condition.
type Group string

// Index has all hosts in memory. The hosts that it returns are shared and must not be changed.
type Index struct {
	informer cache.SharedIndexInformer
}

// New returns an Index of the hosts that hosts lists. Groups are counted for each Ironic by namespace.
func New(hosts ListWatcher, groups map[Group]func(*metal3.BareMetalHost) bool) *Index {
	indexers := cache.Indexers{
		byNodeUUID: func(obj any) ([]string, error) {
			return []string{obj.(*metal3.BareMetalHost).Status.Provisioning.ID}, nil
		},
		bySecret: func(obj any) ([]string, error) {
			host := obj.(*metal3.BareMetalHost)
			names := append(secrets.DataSecretsOf(host), host.Spec.BMC.CredentialsName)
			for i := range names {
				names[i] = host.Namespace + "/" + names[i]
			}
			return names, nil
		},
		byUID: func(obj any) ([]string, error) { return []string{string(obj.(*metal3.BareMetalHost).UID)}, nil },
		byBMC: func(obj any) ([]string, error) {
			host := obj.(*metal3.BareMetalHost)
			return slices.Concat(lifecycle.BMCKey(host).IndexValues(), lifecycle.KeptBMC(host).IndexValues()), nil
		},
	}
	indexers[byMachine] = func(obj any) ([]string, error) {
		return lifecycle.MachineKeys(obj.(*metal3.BareMetalHost)), nil
	}
	for group, includes := range groups {
		indexers[string(group)] = func(obj any) ([]string, error) {
			if host := obj.(*metal3.BareMetalHost); includes(host) {
				return []string{host.Status.Record.Ironic + ironicSeparator + host.Namespace}, nil
			}
			return nil, nil
		}
	}
	return &Index{cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return hosts.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return hosts.Watch(ctx, options)
		},
	}, &metal3.BareMetalHost{}, 0, indexers)}
}

// Run keeps the Index up to date until ctx ends.
func (x *Index) Run(ctx context.Context) { x.informer.RunWithContext(ctx) }

// HasSynced reports whether the Index has all hosts that existed when Run was called.
func (x *Index) HasSynced() bool { return x.informer.HasSynced() }

// OnChange calls changed with the versions of a host before and after each change; the first is nil
// when the host appears, and the second when it is gone. OnChange must be called before Run, and
// changed must not block. If it panics, it is called for the next change all the same. The returned
// function reports whether changed was called for all hosts that existed when Run was called.
func (x *Index) OnChange(changed func(old, host *metal3.BareMetalHost)) (hasSynced func() bool, err error) {
	call := func(old, host *metal3.BareMetalHost) {
		defer panics.Catch(context.Background(), nil, "host", klog.KObj(cmp.Or(host, old)))
		changed(old, host)
	}
	handler, err := x.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { call(nil, asHost(obj)) },
		UpdateFunc: func(old, obj any) { call(asHost(old), asHost(obj)) },
		DeleteFunc: func(obj any) {
			if host := asHost(obj); host != nil {
				call(host, nil)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return handler.HasSynced, nil
}

// asHost returns the host in an informer's notification, or nil if a missed deletion does not have it.
func asHost(obj any) *metal3.BareMetalHost {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	host, _ := obj.(*metal3.BareMetalHost)
	return host
}

// Get returns the host with the key, or nil.
func (x *Index) Get(key types.NamespacedName) *metal3.BareMetalHost {
	obj, _, _ := x.informer.GetStore().GetByKey(key.String()) // the error is never set
	host, _ := obj.(*metal3.BareMetalHost)
	return host
}

// All returns all hosts.
func (x *Index) All() []*metal3.BareMetalHost { return asHosts(x.informer.GetStore().List()) }

// WithNode returns the hosts whose status names the node.
func (x *Index) WithNode(uuid string) []*metal3.BareMetalHost { return x.find(byNodeUUID, uuid) }

// WithSecret returns the hosts that name the Secret.
func (x *Index) WithSecret(namespace, name string) []*metal3.BareMetalHost {
	return x.find(bySecret, namespace+"/"+name)
}

// WithUID returns the hosts with the UID, of which there is at most one.
func (x *Index) WithUID(uid string) []*metal3.BareMetalHost { return x.find(byUID, uid) }

// WithBMC returns the hosts whose BMC may be the one with the key, or that keep it.
func (x *Index) WithBMC(key bmc.Key) []*metal3.BareMetalHost {
	var found []*metal3.BareMetalHost
	for _, value := range key.LookupValues() {
		for _, host := range x.find(byBMC, value) {
			isIts := lifecycle.BMCKey(host).Matches(key) || lifecycle.KeptBMC(host).Matches(key)
			if isIts && !slices.Contains(found, host) {
				found = append(found, host)
			}
		}
	}
	return found
}

// Alike returns the other hosts that share a key of lifecycle.MachineKeys with host, in the order of their names.
func (x *Index) Alike(host *metal3.BareMetalHost) (alike []lifecycle.Alike) {
	var others []*metal3.BareMetalHost
	for _, key := range lifecycle.MachineKeys(host) {
		if sharing := x.countOfMachine(key); sharing < 2 || sharing > lifecycle.MaxSharing {
			continue
		}
		for _, other := range x.find(byMachine, key) {
			if (other.Namespace != host.Namespace || other.Name != host.Name) && !slices.Contains(others, other) {
				others = append(others, other)
			}
		}
	}
	slices.SortFunc(others, func(a, b *metal3.BareMetalHost) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, other := range others {
		alike = append(alike, lifecycle.Alike{BareMetalHost: other, Likeness: lifecycle.LikenessOf(host, other, x.withMachineKey)})
	}
	return alike
}

// withMachineKey returns the hosts that have a key of lifecycle.MachineKeys.
func (x *Index) withMachineKey(key string) []*metal3.BareMetalHost { return x.find(byMachine, key) }

// WithMAC returns the hosts whose machines are known by a MAC address: see lifecycle.MachineMACs.
func (x *Index) WithMAC(mac string) []*metal3.BareMetalHost { return x.withMachineKey(mac) }

func (x *Index) countOfMachine(key string) int {
	keys, _ := x.informer.GetIndexer().IndexKeys(byMachine, key) // it fails only if there is no such index
	return len(keys)
}

// InGroup returns the hosts of an Ironic (see HostRecord.Ironic) that are in a group.
func (x *Index) InGroup(ironic string, group Group) []*metal3.BareMetalHost {
	var found []*metal3.BareMetalHost
	for _, namespace := range x.Namespaces(ironic, group) {
		found = append(found, x.find(string(group), ironic+ironicSeparator+namespace)...)
	}
	return found
}

// Count returns how many hosts of an Ironic that are in a group each namespace has. It does not look at the
// hosts, so that its cost does not grow with their number.
func (x *Index) Count(ironic string, group Group) map[string]int {
	counts := map[string]int{}
	for _, namespace := range x.Namespaces(ironic, group) {
		if keys, err := x.informer.GetIndexer().IndexKeys(string(group), ironic+ironicSeparator+namespace); err == nil { // there is such an index
			counts[namespace] = len(keys)
		}
	}
	return counts
}

// Namespaces returns the namespaces with hosts of an Ironic that are in a group.
func (x *Index) Namespaces(ironic string, group Group) []string {
	var namespaces []string
	for _, value := range x.informer.GetIndexer().ListIndexFuncValues(string(group)) {
		if of, namespace, _ := strings.Cut(value, ironicSeparator); of == ironic {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

func (x *Index) find(index, value string) []*metal3.BareMetalHost {
	found, _ := x.informer.GetIndexer().ByIndex(index, value) // it fails only if there is no such index
	return asHosts(found)
}

func asHosts(objects []any) []*metal3.BareMetalHost {
	hosts := make([]*metal3.BareMetalHost, len(objects))
	for i, obj := range objects {
		hosts[i] = obj.(*metal3.BareMetalHost)
	}
	return hosts
}
