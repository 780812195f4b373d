// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"slices"
	"strings"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// completionTimeout is how long somebody who has pressed Tab is kept waiting.
const completionTimeout = 3 * time.Second

// completeFlag sets what a flag is completed with.
func completeFlag(cmd *cobra.Command, name string, complete cobra.CompletionFunc) {
	utilruntime.Must(cmd.RegisterFlagCompletionFunc(name, complete))
}

// completeWords completes with a fixed list.
func completeWords(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return withPrefix(words, prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

func withPrefix(words []string, prefix string) []cobra.Completion {
	var matching []cobra.Completion
	for _, word := range words {
		if strings.HasPrefix(word, prefix) {
			matching = append(matching, word)
		}
	}
	return matching
}

// completeHosts completes with the names of hosts, of which skip are arguments that are no hosts.
func (s *session) completeHosts(skip int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) < skip {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.hostNames(cmd.Context(), args[skip:], prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeOneHost completes the first argument with the name of a host.
func (s *session) completeOneHost(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.hostNames(cmd.Context(), nil, prefix), cobra.ShellCompDirectiveNoFileComp
}

// complete completes with what ask has learnt from the server. That is nothing if the server cannot be asked: a shell has no
// place for errors.
func (s *session) complete(ctx context.Context, ask func(ctx context.Context, c *clients, namespace string) ([]cobra.Completion, error)) []cobra.Completion {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	s.warnings = silent{}
	c, namespace, err := s.connect()
	if err != nil {
		return nil
	}
	words, err := ask(ctx, c, namespace)
	if err != nil {
		return nil
	}
	return words
}

// hostNames returns the names that begin with a prefix, each with the state of the host.
func (s *session) hostNames(ctx context.Context, given []string, prefix string) []cobra.Completion {
	return s.complete(ctx, func(ctx context.Context, c *clients, namespace string) (names []cobra.Completion, err error) {
		list, err := c.listHosts(ctx, namespace, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			host := &list.Items[i]
			if strings.HasPrefix(host.Name, prefix) && !slices.Contains(given, host.Name) {
				names = append(names, cobra.CompletionWithDesc(view.Clean(host.Name), view.Clean(hosts.State(host))))
			}
		}
		return names, nil
	})
}

// completeNamespaces completes with the names of namespaces.
func (s *session) completeNamespaces(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return s.complete(cmd.Context(), func(ctx context.Context, c *clients, _ string) (names []cobra.Completion, err error) {
		list, err := c.core.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, n := range list.Items {
			if strings.HasPrefix(n.Name, prefix) {
				names = append(names, view.Clean(n.Name))
			}
		}
		return names, nil
	}), cobra.ShellCompDirectiveNoFileComp
}

// states are the provisioning states that hosts can be selected by.
var states = []metal3.ProvisioningState{
	metal3.StateUnmanaged, metal3.StateRegistering, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable, metal3.StateProvisioning,
	metal3.StateProvisioned, metal3.StateExternallyProvisioned, metal3.StateDeprovisioning, metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting,
}

// completeFieldSelectors completes the fields by which the server selects hosts, and their values.
func (s *session) completeFieldSelectors(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var words []string
	for _, state := range states {
		words = append(words, "status.provisioning.state="+string(state))
	}
	for _, status := range []metal3.OperationalStatus{metal3.OperationalStatusOK, metal3.OperationalStatusError, metal3.OperationalStatusDelayed, metal3.OperationalStatusDetached, metal3.OperationalStatusDiscovered, metal3.OperationalStatusServicing} {
		words = append(words, "status.operationalStatus="+string(status))
	}
	words = append(words, "status.poweredOn=true", "status.poweredOn=false", "spec.online=true", "spec.online=false")
	if strings.HasPrefix(prefix, "status.i") { // the server is asked only where that helps
		words = append(words, s.instanceSelectors(cmd.Context())...)
	}
	return withPrefix(words, prefix), cobra.ShellCompDirectiveNoFileComp
}

// instanceSelectors returns the selectors of the hosts of each IronicInstance.
func (s *session) instanceSelectors(ctx context.Context) []cobra.Completion {
	return s.complete(ctx, func(ctx context.Context, c *clients, _ string) (selectors []cobra.Completion, err error) {
		instances, err := c.listIronicObjects(ctx, instanceResource)
		if err != nil {
			return nil, err
		}
		for i := range instances.Items {
			selectors = append(selectors, "status.ironic.instance="+view.Clean(instances.Items[i].GetName()))
		}
		return selectors, nil
	})
}

// silent ignores warnings.
type silent struct{}

func (silent) HandleWarningHeader(int, string, string) {}
