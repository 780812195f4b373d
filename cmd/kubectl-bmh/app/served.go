// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// recordedOnly is what a user has to know where CustomResourceDefinitions serve the hosts, as before a migration and after it was
// taken back: the kinds are the same, but nobody asks Ironic to answer a read.
const recordedOnly = "this cluster serves BareMetalHosts by their CustomResourceDefinition: what is shown is what the Bare Metal Operator has recorded, if it runs"

// isRecordedOnly reports whether CustomResourceDefinitions serve the hosts. It is false if that is not known: whoever serves them
// answers requests all the same.
func (c *clients) isRecordedOnly(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	list, err := c.metal3.Discovery().ServerResourcesForGroupVersionWithContext(ctx, metal3.SchemeGroupVersion.String())
	if err != nil {
		return false
	}
	has := func(resource string) bool {
		return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
	}
	return has(hostResource.Resource) && !has(hostResource.Resource+"/power")
}

// warnIfRecorded warns of hosts that are only what somebody has recorded.
func (s *session) warnIfRecorded(ctx context.Context, c *clients) {
	if c.isRecordedOnly(ctx) {
		s.warnings.HandleWarningHeader(299, "-", recordedOnly)
	}
}

// needServer returns an error where nobody serves what only metal3-apiserver has. The answer to the request itself would be that
// there is no such host.
func (c *clients) needServer(ctx context.Context, what string) error {
	if c.isRecordedOnly(ctx) {
		return fmt.Errorf("%s needs metal3-apiserver: this cluster serves BareMetalHosts by their CustomResourceDefinition", what)
	}
	return nil
}
