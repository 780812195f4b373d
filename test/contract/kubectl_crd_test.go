// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// kubectlStep is one command on RESOURCE, a KIND of GROUPVERSION. The object h is
// there, with online true.
type kubectlStep struct {
	stdin, args string
	// ours is what kubectl says of a host where it says something else of a custom
	// resource: kube-apiserver's code for Go types is not that for CRDs.
	ours string
}

// kubectlSteps are run in this order.
var kubectlSteps = map[string][]kubectlStep{
	"create apply replace": {
		{stdin: objectWith(`"online":true`), args: "create -f -"},
		{stdin: objectWith(`"online":true`), args: "apply -f -"},
		{stdin: objectWith(`"online":true`), args: "apply -f -"},
		{stdin: objectWith(`"online":false`), args: "apply -f -"},
		{stdin: objectWith(`"online":false,"onlin":false`), args: "replace -f -"},
		{stdin: objectWith(`"online":false,"onlin":false`), args: "replace -f - --validate=warn"},
		{stdin: objectWith(`"online":false,"onlin":false`), args: "replace -f - --validate=ignore"},
		{stdin: objectWith(`"online":false`, `"resourceVersion":"1"`), args: "replace -f -"},
		{stdin: objectWith(`"online":false`, `"uid":"00000000-0000-0000-0000-000000000001"`), args: "replace -f -"},
		{stdin: objectWith(`"online":false`), args: "replace -f - --dry-run=server"},
		{stdin: strings.Replace(objectWith(`"online":false`), `"h"`, `"none"`, 1), args: "replace -f -"},
		{stdin: strings.Replace(objectWith(`"online":false`), `"h"`, `""`, 1), args: "create -f -"},
		{stdin: strings.Replace(objectWith(`"online":false`), `"h"`, `"Bad_Name"`, 1), args: "create -f -"},
		{stdin: objectWith(`"online":false`), args: "diff -f -"},
	},
	"patch": {
		{args: patchArgs(`{"spec":{"description":"d"}}`)},
		{args: patchArgs(`{"spec":{"description":"d"}}`)},
		{args: patchArgs(`{"spec":{"nope":"d"}}`)},
		{args: patchArgs(`{"spec":`), ours: "Error from server (BadRequest): invalid JSON patch"},
		{args: patchArgs(`{"metadata":{"name":"i"}}`)},
		{args: patchArgs(`{"metadata":{"namespace":"i"}}`)},
		{args: patchArgs(`{"metadata":{"generation":77}}`)},
		{args: patchArgs(`{"metadata":{"resourceVersion":"1"}}`)},
		{args: patchArgs(`{"metadata":{"uid":"11111111-2222-3333-4444-555555555555"}}`)},
		{args: patchArgs(`{"metadata":{"creationTimestamp":"2001-01-01T00:00:00Z"}}`)},
		{args: patchArgs(`{"metadata":{"deletionTimestamp":"2001-01-01T00:00:00Z"}}`), ours: "metadata.deletionTimestamp: Invalid value"}, // Kubernetes 1.30 prints times otherwise
		{args: patchArgs(`{"metadata":{"labels":{"-bad-":"x"}}}`)},
		{args: patchArgs(`{"metadata":{"finalizers":["unqualified"]}}`), ours: "RESOURCE/h patched"}, // without a warning
		{args: patchArgs(`{"metadata":{"finalizers":null}}`)},
		{args: patchArgs(`{"metadata":{"ownerReferences":[{"name":"x"}]}}`), ours: "metadata.ownerReferences[0].uid: Required value: must not be empty"},
		{args: `patch RESOURCE h --type=json -p [{"op":"test","path":"/spec/online","value":false}]`},
		{args: `patch RESOURCE h --type=json -p [{"op":"add","path":"/spec/networkInterfaces/-","value":{}}]`},
		{args: `patch RESOURCE h --type=json -p [{"op":"replace","path":"/spec/online","value":false}]`},
		{args: "patch RESOURCE none --type=merge -p {}"},
		{args: "get RESOURCE h -o jsonpath={.spec.online}/{.spec.description}/{.metadata.generation}"},
		{args: `patch RESOURCE h --subresource=status --type=merge -p {"status":{"errorMessage":"e"},"spec":{"online":true},"metadata":{"labels":{"no":"no"}}}`},
		{args: "get RESOURCE h -o jsonpath={.status.errorMessage}/{.spec.online}/{.metadata.labels}"},
		{args: "patch RESOURCE h --subresource=scale --type=merge -p {}", ours: "Error from server (NotFound): the server could not find the requested resource"},
		{args: "scale RESOURCE/h --replicas=2", ours: "Error from server (NotFound): the server could not find the requested resource"},
	},
	"strategic merge patch": {
		{args: `patch RESOURCE h -p {"spec":{"description":"d"}}`},
		{args: `patch RESOURCE h --type=strategic -p {"spec":{"networkInterfaces":[{"name":"a"}]}}`},
		{args: `patch RESOURCE h --subresource=status -p {"status":{"errorMessage":"e"}}`},
		{args: "patch RESOURCE none -p {}"},
		{args: `patch RESOURCE h --dry-run=server -p {"spec":{"description":"d"}}`},
		{args: "get RESOURCE h -o jsonpath={.spec.description}/{.spec.networkInterfaces[*].name}/{.metadata.generation}"},
		{stdin: objectWith(`"online":true,"networkInterfaces":[{"name":"a"},{"name":"b"}]`), args: "apply -f -"},
		{stdin: objectWith(`"online":true,"networkInterfaces":[{"name":"b"}]`), args: "apply -f -"},
		{args: "label RESOURCE h rack=7"},
		{args: "annotate RESOURCE h example.com/note=cold"},
		{args: "get RESOURCE h -o jsonpath={.spec.networkInterfaces[*].name}/{.metadata.generation}/{.metadata.labels.rack}"},
		{args: "patch RESOURCE h --type=nonsense -p {}"},
	},
	"server-side apply": {
		{stdin: objectWith(`"online":true`), args: "apply --server-side --field-manager=second -f -"},
		{stdin: objectWith(`"online":false`), args: "apply --server-side --field-manager=third -f -"},
		{stdin: objectWith(`"online":false`), args: "apply --server-side --field-manager=third --force-conflicts -f -"},
		{stdin: objectWith(`"online":"x"`), args: "apply --server-side --field-manager=third --force-conflicts -f -"},
		{stdin: objectWith(`"online":false`, `"managedFields":[]`), args: "apply --server-side --field-manager=third -f -"},
		{stdin: objectWith(`"online":false,"networkInterfaces":[{"name":"a"}]`), args: "apply --server-side --field-manager=third -f -"},
		{stdin: objectWith(`"online":false,"networkInterfaces":[{"name":"b"}]`), args: "apply --server-side --field-manager=second -f -"}, // a list is owned as a whole
		{stdin: objectWith(`"online":false,"description":"d"`, `"resourceVersion":"1"`), args: "apply --server-side --field-manager=third -f -"},
		{stdin: objectWith(`"online":false,"onlin":false`), args: "apply --server-side --field-manager=third --validate=strict -f -", ours: ".spec.onlin: field not declared in schema"},
	},
	"get label wait": {
		{args: "get RESOURCE -o name"},
		{args: "get RESOURCE none"},
		{args: "get RESOURCE none --ignore-not-found"},
		{args: "get RESOURCE -l in(valid"},
		{args: "get RESOURCE --chunk-size=-1 -o name"},
		{args: "get --raw /apis/GROUPVERSION/namespaces/NAMESPACE/PLURAL?limit=x"},
		// For custom resources, Kubernetes 1.30 says the same without the reason.
		{args: "get --raw /apis/GROUPVERSION/namespaces/NAMESPACE/PLURAL?resourceVersion=x", ours: "Error from server (BadRequest): invalid resource version: resourceVersion: Invalid value: \"x\""},
		{args: "get --raw /apis/GROUPVERSION/namespaces/NAMESPACE/PLURAL?continue=x"},
		{args: "get --raw /apis/GROUPVERSION/namespaces/NAMESPACE/PLURAL/h/nope", ours: "Error from server (NotFound): the server could not find the requested resource"},
		{args: "label RESOURCE h a=b"},
		{args: "label RESOURCE h a=c"},
		{args: "label RESOURCE h a=c --overwrite"},
		{args: "annotate RESOURCE h example.com/a=b"},
		{args: "annotate RESOURCE h example.com/a-"},
		{args: "wait RESOURCE/h --for=condition=None --timeout=1s"},
	},
	"delete": {
		{args: "delete RESOURCE h --dry-run=server"},
		{args: patchArgs(`{"metadata":{"finalizers":["example.com/kept"]}}`)},
		{args: "delete RESOURCE h --wait=false"},
		{args: "delete RESOURCE h --wait=false"},
		{args: patchArgs(`{"metadata":{"deletionTimestamp":null},"spec":{"description":"d"}}`)},
		{args: "get RESOURCE h -o jsonpath={.metadata.generation}/{.metadata.deletionGracePeriodSeconds}/{.spec.description}"},
		{args: patchArgs(`{"metadata":{"finalizers":["example.com/kept","example.com/more"]}}`)},
		{args: patchArgs(`{"metadata":{"finalizers":null}}`)},
		{args: "delete RESOURCE h"},
		{args: "delete RESOURCE h --ignore-not-found"},
		{args: "delete RESOURCE --all"},
	},
}

func objectWith(spec string, metadata ...string) string {
	return fmt.Sprintf(`{"apiVersion":"GROUPVERSION","kind":"KIND","metadata":{%s},"spec":{%s}}`, strings.Join(append([]string{`"name":"h"`}, metadata...), ","), spec)
}

func patchArgs(patch string) string { return "patch RESOURCE h --type=merge -p " + patch }

var (
	aHost           = []string{"RESOURCE", "baremetalhosts.metal3.io", "GROUPVERSION", "metal3.io/v1alpha1", "KIND", "BareMetalHost", "PLURAL", "baremetalhosts"}
	aCustomResource = []string{"RESOURCE", "machines.contract.test", "GROUPVERSION", "contract.test/v1", "KIND", "Machine", "PLURAL", "machines"}
)

// TestKubectlAsOnACustomResource runs the same commands on hosts and on a custom
// resource that kube-apiserver serves from a CRD of the same shape: kubectl has to
// say the same, with the same exit code.
func TestKubectlAsOnACustomResource(t *testing.T) {
	k := newShell(t)
	k.ok(machineCRD, "create", "-f", "-")
	t.Cleanup(func() {
		ctx, cancel := cleanupContext(k.ctx)
		defer cancel()
		if _, _, err := s.Kube.Kubectl(ctx, "", "delete", "crd", "machines.contract.test", "--wait=false"); err != nil {
			t.Error(err)
		}
	})
	k.ok("", "wait", "crd/machines.contract.test", "--for=condition=Established", "--timeout=5m")
	testbed.Eventually(t, k.ctx, func() string {
		_, stderr, _ := k.run("", "get", "machines.contract.test")
		if strings.Contains(stderr, "No resources found") {
			return ""
		}
		return stderr
	})
	for name, steps := range kubectlSteps {
		t.Run(name, func(t *testing.T) {
			k := newShell(t)
			k.create("h")
			k.ok(strings.NewReplacer(aCustomResource...).Replace(objectWith(`"online":true`)), "create", "-f", "-")
			for _, step := range steps {
				host, custom := k.says(step, aHost), k.says(step, aCustomResource)
				if host != custom && (step.ours == "" || !strings.Contains(host, step.ours)) {
					t.Errorf("kubectl %s\non a host:            %s\non a custom resource: %s", step.args, host, custom)
				}
			}
		})
	}
}

// says is what kubectl says at a step, without what tells a host from a custom
// resource.
func (k kubectlShell) says(step kubectlStep, names []string) string {
	k.t.Helper()
	as := strings.NewReplacer(slices.Concat(names, []string{"NAMESPACE", k.ns})...)
	stdout, stderr, code := k.run(as.Replace(step.stdin), strings.Split(as.Replace(step.args), " ")...)
	return fmt.Sprintf("exit code %d\n%s", code, anonymous(stdout+stderr))
}

func anonymous(text string) string {
	text = strings.NewReplacer(
		"baremetalhosts.metal3.io", "RESOURCE", "machines.contract.test", "RESOURCE",
		"baremetalhost.metal3.io", "RESOURCE", "machine.contract.test", "RESOURCE",
		"/registry/metal3-apiserver/metal3.io/", "/registry/GROUP/", "/registry/contract.test/", "/registry/GROUP/",
		"metal3.io/v1alpha1", "GROUPVERSION", "contract.test/v1", "GROUPVERSION", `"v1alpha1"`, `"VERSION"`, `"v1"`, `"VERSION"`,
		"baremetalhosts", "PLURAL", "machines", "PLURAL", "BareMetalHost", "KIND", "Machine", "KIND",
	).Replace(text)
	return regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).ReplaceAllString(text, "UID")
}

const machineCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machines.contract.test}
spec:
  group: contract.test
  names: {kind: Machine, plural: machines, singular: machine}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [online]
            properties:
              online: {type: boolean}
              description: {type: string}
              automatedCleaningMode: {type: string, default: metadata, enum: [metadata, disabled]}
              networkInterfaces: {type: array, items: {type: object, properties: {name: {type: string}}}}
          status:
            type: object
            properties:
              errorMessage: {type: string}
`
