// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
)

// groups are the API groups that the server serves, all as v1alpha1.
var groups = []string{"metal3.io", "ironic.metal3-apiserver.io"}

const apiServicePath = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.metal3.io"

// Register registers the server with kube-apiserver by a Service and its APIServices, and waits until
// kube-apiserver serves the API.
func (s *Server) Register(ctx context.Context) error {
	k := s.options.Kube
	// The Service refers to a name outside of the cluster: kube-apiserver connects to
	// localhost:port, and expects the certificate of metal3-apiserver.metal3-system.svc.
	service := object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": ServiceName, "namespace": Namespace},
		"spec": object{
			"type": "ExternalName", "externalName": "localhost",
			"ports": []object{{"name": "https", "port": s.port}},
		},
	}
	items := []object{service}
	for _, group := range groups {
		items = append(items, object{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": object{"name": "v1alpha1." + group},
			"spec": object{
				"group": group, "version": "v1alpha1",
				"groupPriorityMinimum": 1000, "versionPriority": 100,
				"caBundle": base64.StdEncoding.EncodeToString(k.ca.pem),
				"service":  object{"name": ServiceName, "namespace": Namespace, "port": s.port},
			},
		})
	}
	list := object{"apiVersion": "v1", "kind": "List", "items": items}
	if _, _, err := k.Kubectl(ctx, asJSON(list), "apply", "-f", "-"); err != nil {
		return err
	}
	return s.WaitAvailable(ctx)
}

// Route makes the Service and the APIServices that the manifests have created lead to the server. In a cluster,
// kube-proxy would route the address of the Service to the server's pods.
func (s *Server) Route(ctx context.Context) error {
	k := s.options.Kube
	_, _, err := k.Kubectl(ctx, "", "patch", "service", ServiceName, "-n", Namespace, "--type=merge",
		"-p", asJSON(object{"spec": object{"type": "ExternalName", "externalName": "localhost"}}))
	for _, group := range groups {
		_, stderr, patchErr := k.Kubectl(ctx, "", "patch", "apiservice", "v1alpha1."+group, "--type=merge",
			"-p", asJSON(object{"spec": object{"service": object{"port": s.port}}}))
		if group != groups[0] && strings.Contains(stderr, "NotFound") {
			continue // there is none during a migration
		}
		err = errors.Join(err, patchErr)
	}
	return err
}

// WaitAvailable waits until kube-apiserver forwards requests to the server and discovery includes
// baremetalhosts. This is necessary after the server was stopped, because kube-apiserver answers 503
// until it has checked the APIService again.
func (s *Server) WaitAvailable(ctx context.Context) error {
	client, err := discovery.NewDiscoveryClientForConfig(s.options.Kube.Admin.Config)
	if err != nil {
		return err
	}
	err = poll(ctx, func(ctx context.Context) error {
		notYet := apiAvailable(ctx, client)
		if notYet == nil {
			return nil
		}
		// kube-apiserver checks again within 30 s, or when the APIService changes.
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"testbed/look-again":%q}}}`, time.Now().Format(time.RFC3339))
		err := client.RESTClient().Patch(types.MergePatchType).AbsPath(apiServicePath).Body([]byte(patch)).Do(ctx).Error()
		return errors.Join(notYet, err)
	})
	if err != nil {
		return fmt.Errorf("%s is not served by kube-apiserver: %w; the end of %s:\n%s", groupVersionPath, err, s.LogPath, tail(s.LogPath))
	}
	return nil
}

// apiAvailable returns nil if the APIService is available and discovery, through kube-apiserver,
// includes baremetalhosts.
func apiAvailable(ctx context.Context, client *discovery.DiscoveryClient) error {
	body, err := client.RESTClient().Get().AbsPath(apiServicePath).Do(ctx).Raw()
	if err != nil {
		return err
	}
	var apiService struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(body, &apiService); err != nil {
		return err
	}
	i := slices.IndexFunc(apiService.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Available" })
	if i < 0 {
		return errors.New("the APIService has no condition Available yet")
	}
	if c := apiService.Status.Conditions[i]; c.Status != metav1.ConditionTrue {
		return fmt.Errorf("the APIService is not available: %s: %s", c.Reason, c.Message)
	}
	body, err = client.RESTClient().Get().AbsPath(groupVersionPath).Do(ctx).Raw()
	if err != nil {
		return err
	}
	var resources metav1.APIResourceList
	if err := json.Unmarshal(body, &resources); err != nil {
		return err
	}
	if !slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == "baremetalhosts" }) {
		return fmt.Errorf("%s does not list baremetalhosts", groupVersionPath)
	}
	// kubectl uses the aggregated discovery document, which is updated later.
	groups, err := client.RESTClient().Get().AbsPath("/apis").
		SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").Do(ctx).Raw()
	if err == nil && !strings.Contains(string(groups), `"baremetalhosts"`) {
		err = errors.New("the discovery document does not have baremetalhosts yet")
	}
	return err
}

type object = map[string]any

// asJSON encodes an object that is defined in this package, which cannot fail.
func asJSON(o object) string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func readFile(path string) (string, error) {
	content, err := os.ReadFile(path)
	return string(content), err
}
