// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// ironicCRD has of the Ironic Standalone Operator's kind Ironic what matters here.
const ironicCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ironics.ironic.metal3.io
spec:
  group: ironic.metal3.io
  names: {kind: Ironic, listKind: IronicList, plural: ironics, singular: ironic}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              apiCredentialsName: {type: string}
              networking: {type: object, properties: {apiPort: {type: integer, format: int32, minimum: 1, default: 6385}}}
              tls: {type: object, properties: {certificateName: {type: string}}}
              version: {type: string}
          status:
            type: object
            properties:
              installedVersion: {type: string}
              requestedVersion: {type: string}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [lastTransitionTime, message, reason, status, type]
                  properties:
                    lastTransitionTime: {type: string, format: date-time}
                    message: {type: string}
                    observedGeneration: {type: integer, format: int64}
                    reason: {type: string}
                    status: {type: string, enum: ["True", "False", Unknown]}
                    type: {type: string}
`

// TestIronicObject: the server reads an Ironic object and its Secret with the permissions that the manifests give, and says what is
// missing. There is no DNS for Services here, so the Ironic itself is never reached.
func TestIronicObject(t *testing.T) {
	testbed.OnSimulator(t, "no Ironic is asked")
	ctx, _ := s.Begin(t)
	namespace := testbed.Namespace
	kubectl(t, ctx, ironicCRD, "create", "-f", "-")
	t.Cleanup(func() {
		_, _, _ = s.Kube.Kubectl(context.WithoutCancel(ctx), "", "delete", "crd", "ironics.ironic.metal3.io")
	})
	kubectl(t, ctx, "", "wait", "--for=condition=Established", "--timeout=5m", "crd/ironics.ironic.metal3.io")
	kubectl(t, ctx, `
apiVersion: ironic.metal3-apiserver.io/v1alpha1
kind: IronicInstance
metadata:
  name: of-object
spec:
  ironicRef: {name: ironic}
  selector: {matchLabels: {room: of-object}}
`, "create", "-f", "-")
	t.Cleanup(func() {
		_, _, _ = s.Kube.Kubectl(context.WithoutCancel(ctx), "", "delete", "ironicinstances", "of-object")
	})
	// says waits until the instance has a condition with a reason. The objects are read every half minute, and at once
	// when the instance changes.
	says := func(step, condition, reason string) metav1.Condition {
		t.Helper()
		kubectl(t, ctx, "", "annotate", "--overwrite", "ironicinstances", "of-object", "step="+step)
		var c *metav1.Condition
		testbed.Eventually(t, ctx, func() string {
			var instance ironicapi.IronicInstance
			if err := json.Unmarshal([]byte(kubectl(t, ctx, "", "get", "ironicinstances", "of-object", "-o", "json")), &instance); err != nil {
				t.Fatal(err)
			}
			if c = meta.FindStatusCondition(instance.Status.Conditions, condition); c == nil || c.Reason != reason {
				return "the conditions are " + instance.Status.Conditions[0].Reason + ": " + instance.Status.Conditions[0].Message
			}
			return ""
		})
		return *c
	}
	says("none", ironicapi.IronicInstanceAccepted, ironicapi.IronicNotFoundReason)

	kubectl(t, ctx, `
apiVersion: ironic.metal3.io/v1alpha1
kind: Ironic
metadata: {name: ironic, namespace: `+namespace+`}
spec: {version: "34.0"}
`, "create", "-f", "-")
	says("new", ironicapi.IronicInstanceAccepted, ironicapi.IronicNotReadyReason)
	kubectl(t, ctx, "", "patch", "ironics.ironic.metal3.io", "ironic", "-n", namespace, "--type=merge", "-p", `{"spec":{"apiCredentialsName":"ironic-service"}}`)
	says("without Secret", ironicapi.IronicInstanceAccepted, ironicapi.SecretNotFoundReason)
	s.CreateSecret(t, ctx, namespace, "ironic-service", map[string]string{"username": "metal3", "password": "s3cret"})
	t.Cleanup(func() {
		_ = s.Core.CoreV1().Secrets(namespace).Delete(context.WithoutCancel(ctx), "ironic-service", metav1.DeleteOptions{})
	})
	says("with another Secret", ironicapi.IronicInstanceAccepted, ironicapi.SecretInvalidReason)
	kubectl(t, ctx, "", "label", "secret", "ironic-service", "-n", namespace, "environment.metal3.io/ironic-standalone-operator=true")
	says("with the Secret", ironicapi.IronicInstanceAccepted, ironicapi.AcceptedReason)

	kubectl(t, ctx, "", "patch", "ironics.ironic.metal3.io", "ironic", "-n", namespace, "--subresource=status", "--type=merge", "-p",
		`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"DeploymentInProgress","message":"no pods yet","lastTransitionTime":"2026-11-01T00:00:00Z"}]}}`)
	if c := says("not ready", ironicapi.IronicInstanceIronicReady, "DeploymentInProgress"); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "no pods yet") {
		t.Errorf("the object is not ready: %+v", c)
	}
	if out := kubectl(t, ctx, "", "get", "ironicinstances", "of-object", "-o", "wide"); !strings.Contains(out, "http://ironic."+namespace+".svc") {
		t.Errorf("kubectl get ironicinstances:\n%s", out)
	}
	out := mustBMH(t, ctx, namespace, "", "ironics")
	t.Logf("%s", out)
	if !strings.Contains(out, "Its Ironic object is not ready (DeploymentInProgress)") {
		t.Errorf("kubectl bmh ironics:\n%s", out)
	}
}
