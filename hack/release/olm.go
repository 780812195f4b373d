// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const (
	// Where OLM mounts the serving certificate that it makes, and the names that it gives its files.
	olmCertificates = "/apiserver.local.config/certificates/apiserver"
	// Releases before v1.0.0 do not promise what one expects of "stable".
	olmChannel = "candidate"

	olmAnnotations = `annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: metal3-apiserver
  operators.operatorframework.io.bundle.channels.v1: ` + olmChannel + `
  operators.operatorframework.io.bundle.channel.default.v1: ` + olmChannel + `
`

	olmBefore = `# What metal3-apiserver needs and a bundle for OLM must not contain: apply it before the installation, and before each update.
`
)

// olmDescription is what OLM's consoles show.
//
//go:embed olm.md
var olmDescription string

// olmOwned are the kinds that the ClusterServiceVersion lists, at least one for each APIService. OLM adds permissions on these, and
// only these, to the cluster's roles view, edit and admin, although nobody shall get anything in this API unasked. That is why it is
// these two: they are cluster-scoped, so that whoever has such a role in a namespace gets nothing, and this server acts on neither.
var olmOwned = []olmAPI{
	{Group: "metal3.io", Version: "v1alpha1", Kind: "Provisioning", Name: "provisionings", DisplayName: "metal3.io/v1alpha1",
		Description: "All kinds of metal3.io/v1alpha1, such as BareMetalHosts. This one is for OpenShift's cluster-baremetal-operator."},
	{Group: "ironic.metal3-apiserver.io", Version: "v1alpha1", Kind: "Candidate", Name: "candidates", DisplayName: "ironic.metal3-apiserver.io/v1alpha1",
		Description: "What Ironic has beside the hosts: IronicInstances, and nodes that no host has, which are candidates."},
}

// olmAPI is a kind of an APIService in a ClusterServiceVersion.
type olmAPI struct {
	Group          string `json:"group"`
	Version        string `json:"version"`
	Kind           string `json:"kind"`
	Name           string `json:"name"`
	DisplayName    string `json:"displayName"`
	Description    string `json:"description"`
	DeploymentName string `json:"deploymentName"`
	ContainerPort  int32  `json:"containerPort"`
}

// olmPermissions are those of a service account in a ClusterServiceVersion.
type olmPermissions struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// olmParts are the objects of an installation, by what becomes of them.
type olmParts struct {
	before []string // an administrator applies them
	beside map[string]map[string]any
	// clusterRoles are by name. Those that are bound to the server are not beside.
	clusterRoles map[string]map[string]any
	deployment   *appsv1.Deployment
	config       *corev1.ConfigMap
	roles        map[string][]rbacv1.PolicyRule // by kind and name
	bindings     []olmBinding
	apiServices  []string
}

type olmBinding struct {
	name, namespace string // that of a ClusterRoleBinding is empty
	role            string // kind and name
	subjects        []rbacv1.Subject
}

// writeOLM writes a bundle for OLM, the Operator Lifecycle Manager, in the format registry+v1, of what the manifest has, which is
// artifacts/apiservice as kustomize renders it with the image of a release. In the folder are the bundle and before.yaml, with the
// objects that a bundle must not contain.
func writeOLM(folder, version, manifest string) error {
	content, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	parts, err := olmPartsOf(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", manifest, err)
	}
	csv, err := parts.csv(version)
	if err != nil {
		return fmt.Errorf("%s: %w", manifest, err)
	}
	files := map[string][]byte{
		"before.yaml":                      []byte(olmBefore + strings.Join(parts.before, "---\n")),
		"bundle/metadata/annotations.yaml": []byte(olmAnnotations),
		"bundle/Dockerfile":                []byte(olmDockerfile()),
	}
	parts.beside["metal3-apiserver.clusterserviceversion.yaml"] = csv
	for name, object := range parts.beside {
		if files["bundle/manifests/"+name], err = yaml.Marshal(object); err != nil {
			return err
		}
	}
	for path, content := range files {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// olmDockerfile returns what makes an image of a bundle. Its labels are the bundle's annotations.
func olmDockerfile() string {
	file := "FROM scratch\n"
	for _, line := range strings.Split(strings.TrimSpace(olmAnnotations), "\n")[1:] {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		file += "LABEL " + key + "=" + value + "\n"
	}
	return file + "COPY manifests /manifests/\nCOPY metadata /metadata/\n"
}

// olmPartsOf sorts the objects of a manifest. An object of a kind that it does not know is an error: somebody has to decide.
func olmPartsOf(manifest string) (*olmParts, error) {
	parts := &olmParts{beside: map[string]map[string]any{}, clusterRoles: map[string]map[string]any{}, roles: map[string][]rbacv1.PolicyRule{}}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		if err := parts.add(strings.TrimSuffix(document, "\n") + "\n"); err != nil {
			return nil, err
		}
	}
	if parts.deployment == nil || parts.config == nil {
		return nil, errors.New("there is no Deployment, or no ConfigMap")
	}
	// What is bound to the server is in the ClusterServiceVersion.
	for _, binding := range parts.bindings {
		if name, is := strings.CutPrefix(binding.role, "ClusterRole "); is {
			delete(parts.clusterRoles, name)
		}
	}
	for name, role := range parts.clusterRoles {
		parts.beside[name+".clusterrole.yaml"] = role
	}
	return parts, nil
}

// add sorts the object of a document in.
func (p *olmParts) add(document string) error {
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(document), &object); err != nil {
		return err
	}
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	var err error
	switch kind {
	case "ResourceQuota", "FlowSchema", "PriorityLevelConfiguration":
		p.before = append(p.before, document)
	case "PodDisruptionBudget", "NetworkPolicy":
		delete(metadata, "namespace") // OLM sets it
		p.beside[name+"."+strings.ToLower(kind)+".yaml"] = object
	case "ServiceAccount", "Service", "Certificate", "Issuer":
		// OLM makes its own.
	case "APIService":
		p.apiServices = append(p.apiServices, name)
	case "Deployment":
		p.deployment = &appsv1.Deployment{}
		err = yaml.UnmarshalStrict([]byte(document), p.deployment)
	case "ConfigMap":
		p.config = &corev1.ConfigMap{}
		err = yaml.UnmarshalStrict([]byte(document), p.config)
	case "Role", "ClusterRole":
		role := rbacv1.Role{} // a ClusterRole without an aggregationRule has the same fields
		err = yaml.UnmarshalStrict([]byte(document), &role)
		p.roles[kind+" "+name] = role.Rules
		if kind == "ClusterRole" {
			p.clusterRoles[name] = object
		}
	case "RoleBinding", "ClusterRoleBinding":
		binding := rbacv1.RoleBinding{}
		err = yaml.UnmarshalStrict([]byte(document), &binding)
		p.bindings = append(p.bindings, olmBinding{name, binding.Namespace, binding.RoleRef.Kind + " " + binding.RoleRef.Name, binding.Subjects})
	default:
		err = errors.New("hack/release/olm.go does not say what becomes of it")
	}
	if err != nil {
		return fmt.Errorf("the %s %s: %w", kind, name, err)
	}
	return nil
}

// csv returns the ClusterServiceVersion.
func (p *olmParts) csv(version string) (map[string]any, error) {
	if err := p.adaptDeployment(); err != nil {
		return nil, err
	}
	container := p.deployment.Spec.Template.Spec.Containers[0]
	permissions, clusterPermissions, err := p.permissions()
	if err != nil {
		return nil, err
	}
	var owned []olmAPI
	var names []string
	for _, api := range olmOwned {
		api.DeploymentName = p.deployment.Name
		api.ContainerPort = container.Ports[0].ContainerPort
		owned = append(owned, api)
		names = append(names, api.Version+"."+api.Group)
	}
	slices.Sort(names)
	if slices.Sort(p.apiServices); !slices.Equal(names, p.apiServices) {
		return nil, fmt.Errorf("the APIServices are %q, but hack/release/olm.go has %q", p.apiServices, names)
	}
	return map[string]any{
		"apiVersion": "operators.coreos.com/v1alpha1",
		"kind":       "ClusterServiceVersion",
		"metadata":   p.csvMetadata(version),
		"spec": map[string]any{
			"displayName":    "metal3-apiserver",
			"description":    olmDescription,
			"version":        strings.TrimPrefix(version, "v"),
			"maturity":       "alpha",
			"minKubeVersion": "1.30.0",
			"provider":       map[string]string{"name": "Metal3", "url": "https://metal3.io"},
			"keywords":       []string{"metal3", "ironic", "bare metal"},
			"links":          []map[string]string{{"name": "Sources and documents", "url": "https://github.com/metal3-io/metal3-apiserver"}},
			// There is one API for the whole cluster.
			"installModes": []map[string]any{
				{"type": "OwnNamespace", "supported": false},
				{"type": "SingleNamespace", "supported": false},
				{"type": "MultiNamespace", "supported": false},
				{"type": "AllNamespaces", "supported": true},
			},
			"apiservicedefinitions": map[string]any{"owned": owned},
			"relatedImages":         []map[string]string{{"name": container.Name, "image": container.Image}},
			"install": map[string]any{
				"strategy": "deployment",
				"spec": map[string]any{
					"deployments":        []map[string]any{{"name": p.deployment.Name, "spec": p.deployment.Spec}},
					"permissions":        permissions,
					"clusterPermissions": clusterPermissions,
				},
			},
		},
	}, nil
}

func (p *olmParts) csvMetadata(version string) map[string]any {
	return map[string]any{
		"name": "metal3-apiserver." + strings.ToLower(version),
		"annotations": map[string]string{
			"capabilities":   "Basic Install",
			"categories":     "Cloud Provider",
			"containerImage": p.deployment.Spec.Template.Spec.Containers[0].Image,
			"description":    "Metal3's BareMetalHost as an aggregated Kubernetes API",
			"operatorframework.io/suggested-namespace": p.deployment.Namespace,
			"repository": "https://github.com/metal3-io/metal3-apiserver",
		},
		"labels": map[string]string{
			"operatorframework.io/os.linux":   "supported",
			"operatorframework.io/arch.amd64": "supported",
			"operatorframework.io/arch.arm64": "supported",
		},
	}
}

// adaptDeployment gives the pods the serving certificate of OLM, and the values of the ConfigMap as environment variables, which
// spec.config.env of a Subscription replaces.
func (p *olmParts) adaptDeployment() error {
	pod := &p.deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 || len(pod.Containers[0].Ports) != 1 {
		return errors.New("there is not one container with one port")
	}
	container := &pod.Containers[0]

	is := func(mount corev1.VolumeMount) bool { return mount.Name == "serving" }
	at := slices.IndexFunc(container.VolumeMounts, is)
	if at < 0 {
		return errors.New(`the container has no volume "serving" with the certificate`)
	}
	former := container.VolumeMounts[at].MountPath + "/tls."
	container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, is)
	pod.Volumes = slices.DeleteFunc(pod.Volumes, func(volume corev1.Volume) bool { return volume.Name == "serving" })
	adapted := 0
	for i, arg := range container.Args {
		if flag, file, _ := strings.Cut(arg, "="); strings.HasPrefix(file, former) {
			container.Args[i] = flag + "=" + olmCertificates + "." + strings.TrimPrefix(file, former)
			adapted++
		}
	}
	if adapted != 2 {
		return fmt.Errorf("%d arguments begin with %s, not those for the certificate and for its key", adapted, former)
	}

	for i, env := range container.Env {
		if env.ValueFrom == nil {
			continue
		}
		reference := env.ValueFrom.ConfigMapKeyRef
		if reference == nil || reference.Name != p.config.Name {
			return fmt.Errorf("%s is not from the ConfigMap %s", env.Name, p.config.Name)
		}
		value, is := p.config.Data[reference.Key]
		if !is {
			return fmt.Errorf("the ConfigMap has no %s", reference.Key)
		}
		container.Env[i] = corev1.EnvVar{Name: env.Name, Value: value}
	}
	return nil
}

// permissions returns the rules of all roles that are bound to the server, in its namespace and in the cluster, but for those with
// which an aggregated API asks who a user is, and what a user may do: OLM binds them itself.
func (p *olmParts) permissions() (namespaced, cluster []olmPermissions, err error) {
	account := p.deployment.Spec.Template.Spec.ServiceAccountName
	server := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: p.deployment.Namespace}
	for _, binding := range p.bindings {
		if !slices.Equal(binding.subjects, []rbacv1.Subject{server}) {
			return nil, nil, fmt.Errorf("the binding %s is of %v, and not of %v", binding.name, binding.subjects, server)
		}
		if slices.Contains([]string{"Role extension-apiserver-authentication-reader", "ClusterRole system:auth-delegator"}, binding.role) {
			continue
		}
		rules, is := p.roles[binding.role]
		if !is {
			return nil, nil, fmt.Errorf("there is no %s, to which %s refers", binding.role, binding.name)
		}
		switch binding.namespace {
		case "":
			cluster = append(cluster, olmPermissions{account, rules})
		case p.deployment.Namespace:
			namespaced = append(namespaced, olmPermissions{account, rules})
		default:
			return nil, nil, fmt.Errorf("the binding %s is in %s, where OLM grants nothing", binding.name, binding.namespace)
		}
	}
	return namespaced, cluster, nil
}
