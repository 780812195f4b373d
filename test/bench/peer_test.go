// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// The peer is the same hosts as objects of a CustomResourceDefinition, in the same
// kube-apiserver, under a group of their own.
const (
	peerGroup = "peer.metal3.io"
	peerPath  = "/apis/" + peerGroup + "/v1alpha1/namespaces/" + namespace + "/baremetalhosts"
)

// peerDefinition has no schema to speak of and no subresource: nothing to prune or
// to give defaults to when it is read, and one write makes an object whole.
const peerDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
	"metadata":{"name":"baremetalhosts.` + peerGroup + `"},
	"spec":{"group":"` + peerGroup + `","scope":"Namespaced",
		"names":{"kind":"BareMetalHost","listKind":"BareMetalHostList","plural":"baremetalhosts","singular":"baremetalhost"},
		"versions":[{"name":"v1alpha1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// createPeer copies the hosts of the bed.
func (b *bed) createPeer(ctx context.Context) error {
	if _, _, err := shared.kube.Kubectl(ctx, peerDefinition, "apply", "-f", "-"); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(shared.kube.Admin.Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	admin := &reader{client, shared.kube.Admin.Config.Host}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return admin.read(ctx, peerPath, nil, new(strings.Builder)) == nil, ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("the peer's CustomResourceDefinition is not served: %w", err)
	}
	var answer bytes.Buffer
	if err := b.direct.read(ctx, hostsPath, nil, &answer); err != nil {
		return err
	}
	var hosts metal3.BareMetalHostList
	if err := json.Unmarshal(answer.Bytes(), &hosts); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, host := range hosts.Items {
		group.Go(func() error {
			host.TypeMeta = metav1.TypeMeta{APIVersion: peerGroup + "/v1alpha1", Kind: "BareMetalHost"}
			host.UID, host.ResourceVersion, host.ManagedFields = "", "", nil
			body, err := json.Marshal(host)
			if err != nil {
				return err
			}
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, admin.url+peerPath, bytes.NewReader(body))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/json")
			_, err = readAll(client, request, new(bytes.Buffer))
			return err
		})
	}
	return group.Wait()
}

// removePeer takes out of kube-apiserver what would weigh on what is measured later.
func removePeer(ctx context.Context) error {
	_, _, err := shared.kube.Kubectl(ctx, "", "delete", "crd", "baremetalhosts."+peerGroup, "--wait=false")
	return err
}
