// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// selection is which hosts an IronicInstance has as its own.
type selection struct {
	name string
	// namespaces and hosts are nil where everything matches. If both are missing in the spec, selects is false.
	namespaces, hosts labels.Selector
	selects           bool
	spec              *api.IronicInstanceSpec
	// unusable is set if the server cannot use the IronicInstance.
	unusable bool
}

func newSelection(instance *api.IronicInstance) (selection, error) {
	spec := &instance.Spec
	s := selection{name: instance.Name, spec: spec, selects: spec.NamespaceSelector != nil || spec.Selector != nil}
	var err error
	if spec.NamespaceSelector != nil {
		if s.namespaces, err = metav1.LabelSelectorAsSelector(spec.NamespaceSelector); err != nil {
			return s, fmt.Errorf("spec.namespaceSelector: %w", err)
		}
	}
	if spec.Selector != nil {
		if s.hosts, err = metav1.LabelSelectorAsSelector(spec.Selector); err != nil {
			return s, fmt.Errorf("spec.selector: %w", err)
		}
	}
	return s, nil
}

// matches reports whether a host is one of the selected. certain is false if that depends on the labels of its namespace, and
// these are not known.
func (s selection) matches(host *metal3.BareMetalHost, namespace labels.Set) (matches, certain bool) {
	switch {
	case !s.selects, s.hosts != nil && !s.hosts.Matches(labels.Set(host.Labels)):
		return false, true
	case s.namespaces == nil:
		return true, true
	case namespace == nil:
		return false, s.namespaces.Empty()
	}
	return s.namespaces.Matches(namespace), true
}

// choose returns the name of the Ironic in which a host without a node is to be registered; empty is the Ironic of the server's
// flags. The labels of the host's namespace are nil if they are not known. If the choice is not certain, problem tells the
// user of the host why. A wrong choice would register a machine in a room in which it does not stand.
func choose(all []selection, host *metal3.BareMetalHost, namespace labels.Set) (name, problem string) {
	var selecting, defaults []string
	unusable := map[string]bool{}
	for _, s := range all {
		unusable[s.name] = s.unusable
		if s.spec.Default {
			defaults = append(defaults, s.name)
		}
		matches, certain := s.matches(host, namespace)
		if !certain {
			return "", fmt.Sprintf("the labels of namespace %q are not known yet, by which IronicInstance %q selects its hosts", host.Namespace, s.name)
		}
		if matches {
			selecting = append(selecting, s.name)
		}
	}
	if len(selecting) == 0 {
		selecting = defaults // at most one, unless two were written at the same time
	}
	switch len(selecting) {
	case 0:
	case 1:
		name = selecting[0]
	default:
		return "", fmt.Sprintf("the IronicInstances %s select the host; an administrator has to change their selectors so that one of them does", strings.Join(selecting, " and "))
	}
	if unusable[name] {
		return "", describeUnusable(name)
	}
	return name, ""
}

// describeUnusable tells users, who need not be permitted to read IronicInstances, that one cannot be used.
func describeUnusable(name string) string {
	return fmt.Sprintf("the server cannot use IronicInstance %q; an administrator sees the reason in its conditions", name)
}

// hasNode reports whether a host has its node, or is about to get it, in the Ironic that is recorded. A status that was restored
// from an annotation has the UUID of a node that may be anywhere.
func hasNode(host *metal3.BareMetalHost) bool {
	record := &host.Status.Record
	return host.Status.Provisioning.ID != "" && (record.Observed || record.Ironic != "")
}
