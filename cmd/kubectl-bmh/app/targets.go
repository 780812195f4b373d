// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// chosen is which hosts of a namespace a command acts on: by name, by labels, or all.
type chosen struct {
	labels string
	all    bool
}

func (ch *chosen) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&ch.labels, "selector", "l", "", "The hosts with these labels, for example rack=7")
	cmd.Flags().BoolVar(&ch.all, "all", false, "All hosts of the namespace")
}

// errNoHosts is returned if nothing says which hosts are meant.
var errNoHosts = errors.New("name the hosts, or use --selector or --all")

// check refuses contradictions between names and flags.
func (ch *chosen) check(names []string) error {
	given := 0
	for _, is := range []bool{len(names) > 0, ch.labels != "", ch.all} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return errNoHosts
	case given > 1:
		return errors.New("use only one of names, --selector and --all")
	}
	selector, err := labels.Parse(ch.labels)
	switch {
	case err != nil:
		return fmt.Errorf("--selector: %w", err)
	case ch.labels != "" && selector.Empty(): // of blanks, as of variables of a script that are not set
		return fmt.Errorf("--selector %q selects all hosts: %w", ch.labels, errNoHosts)
	}
	return nil
}

// isByName reports whether the user has named every host.
func (ch *chosen) isByName() bool { return ch.labels == "" && !ch.all }

// find returns the hosts that were chosen. Hosts by name are returned in that order; each must exist.
func (ch *chosen) find(ctx context.Context, c *clients, namespace string, names []string) ([]*metal3.BareMetalHost, error) {
	found, missing, err := ch.findLeft(ctx, c, namespace, names)
	switch {
	case cmp.Or(err, missing) != nil:
		return nil, cmp.Or(err, missing)
	case len(found) > 0:
		return found, nil
	case ch.labels != "":
		return nil, fmt.Errorf("no host in namespace %s has the labels %s", namespace, ch.labels)
	}
	return nil, fmt.Errorf("there are no hosts in namespace %s", namespace)
}

// findLeft returns those of the chosen hosts that exist. The error missing says that one that was named does not.
func (ch *chosen) findLeft(ctx context.Context, c *clients, namespace string, names []string) (found []*metal3.BareMetalHost, missing, err error) {
	if ch.isByName() {
		for _, name := range unique(names) {
			host, err := c.getHost(ctx, namespace, name)
			switch {
			case isNoHost(err):
				missing = cmp.Or(missing, err)
			case err != nil:
				return nil, nil, err
			default:
				found = append(found, host)
			}
		}
		return found, missing, nil
	}
	list, err := c.listHosts(ctx, namespace, metav1.ListOptions{LabelSelector: ch.labels})
	if err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil, nil
}

// isNoHost reports whether a host does not exist. Where the API is not served, the answer is NotFound, too.
func isNoHost(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// watchOptions select hosts for a watch: a single one, or all of the namespace. Labels are of no
// use here: a host whose labels change is waited for all the same.
func watchOptions(names []string) metav1.ListOptions {
	if len(names) == 1 {
		return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, names[0]).String()}
	}
	return metav1.ListOptions{}
}

func unique(names []string) []string {
	var result []string
	seen := map[string]bool{}
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			result = append(result, name)
		}
	}
	return result
}
