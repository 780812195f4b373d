// SPDX-License-Identifier: Apache-2.0

package page

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
)

// commandsOf returns what to type in a terminal to see more. Names of objects need no quotes.
func commandsOf(host *metal3.BareMetalHost, behind consumers.Consumer) []string {
	commands := []string{"kubectl bmh why -n " + host.Namespace + " " + host.Name, "kubectl describe bmh -n " + host.Namespace + " " + host.Name}
	if behind.Machine != "" && isName(behind.Machine) {
		namespace := host.Namespace
		if ref := host.Spec.ConsumerRef; ref != nil && isName(ref.Namespace) {
			namespace = ref.Namespace
		}
		commands = append(commands, "kubectl describe machine -n "+namespace+" "+behind.Machine)
	}
	if behind.Node != "" && isName(behind.Node) {
		commands = append(commands, "kubectl describe node "+behind.Node)
	}
	return commands
}

// yamlOf returns a host in YAML, for people: without managedFields, and without what kubectl apply keeps, which repeats the spec.
// Passwords in the URLs of images are hidden from those who look over a shoulder.
func yamlOf(host *metal3.BareMetalHost) string {
	shown := host.DeepCopy()
	shown.APIVersion, shown.Kind = metal3.SchemeGroupVersion.String(), "BareMetalHost"
	shown.ManagedFields = nil
	delete(shown.Annotations, corev1.LastAppliedConfigAnnotation)
	for _, image := range []*metal3.Image{shown.Spec.Image, shown.Status.LastAttemptedImage, &shown.Status.Provisioning.Image} {
		if image != nil {
			image.URL, image.Checksum = withoutPassword(image.URL), withoutPassword(image.Checksum)
		}
	}
	text, err := yaml.Marshal(shown)
	if err != nil {
		return "# " + err.Error()
	}
	return string(text)
}
