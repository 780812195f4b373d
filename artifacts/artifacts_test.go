// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/cmd/metal3-apiserver/app"
)

const (
	namespace = "metal3-system"
	name      = "metal3-apiserver"
	host      = name + "." + namespace + ".svc"
)

// container returns the server's container. Environment variables that come from
// ConfigMaps of the installation have their values filled in.
func container(t *testing.T, objs objects) corev1.Container {
	t.Helper()
	containers := only[*appsv1.Deployment](t, objs).Spec.Template.Spec.Containers
	if len(containers) != 1 {
		t.Fatalf("%d containers, want 1", len(containers))
	}
	c := containers[0]
	for i := range c.Env {
		if c.Env[i].ValueFrom == nil {
			continue
		}
		ref := c.Env[i].ValueFrom.ConfigMapKeyRef
		value, ok := "", false
		if config := named[*corev1.ConfigMap](objs, ref.Name); config != nil {
			value, ok = config.Data[ref.Key]
		}
		if !ok {
			t.Errorf("env %s: there is no key %s in a ConfigMap %s", c.Env[i].Name, ref.Key, ref.Name)
		}
		c.Env[i].Value = value
	}
	return c
}

// options returns the options that the server gets from its arguments and environment.
func options(t *testing.T, c corev1.Container) *app.Options {
	t.Helper()
	var expand []string
	t.Setenv("IRONIC_ENDPOINT", "")
	for _, env := range c.Env {
		t.Setenv(env.Name, env.Value)
		expand = append(expand, "$("+env.Name+")", env.Value)
	}
	o := app.NewOptions()
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, group := range o.Flags().FlagSets {
		fs.AddFlagSet(group)
	}
	args := slices.Clone(c.Args)
	for i := range args {
		args[i] = strings.NewReplacer(expand...).Replace(args[i])
		if strings.Contains(args[i], "$(") {
			t.Errorf("%s names a variable that is not in env", args[i])
		}
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestServerAcceptsItsArguments(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		c := container(t, objs)
		o := options(t, c)
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
		if o.Ironic.Endpoint == "" {
			t.Error("the server does not get IRONIC_ENDPOINT")
		}
		pod := only[*appsv1.Deployment](t, objs).Spec.Template.Spec
		delay := o.Run.ShutdownDelayDuration + time.Minute
		if grace := time.Duration(ptr.Deref(pod.TerminationGracePeriodSeconds, 30)) * time.Second; grace < delay+5*time.Second {
			t.Errorf("the pod gets %s to terminate; the shutdown delay and requests in progress may take %s", grace, delay)
		}
		// Each file that an argument names must be on a volume.
		for _, arg := range c.Args {
			flag, path, _ := strings.Cut(arg, "=")
			if strings.HasPrefix(path, "/") && !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				return strings.HasPrefix(path, m.MountPath+"/") && m.ReadOnly == (flag != "--data-dir")
			}) {
				t.Errorf("%s is not on a volume of the right kind", arg)
			}
		}
		for _, mount := range c.VolumeMounts {
			if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("volume %s does not exist", mount.Name)
			}
		}
	})
}

// TestSiteValuesReachServer checks the two values and the image that every user sets.
func TestSiteValuesReachServer(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		if !strings.Contains(t.Name(), "/site-") {
			return
		}
		c := container(t, objs)
		o := options(t, c)
		if o.Ironic.Endpoint != "https://ironic.example.com" || c.Image != siteImage {
			t.Errorf("Ironic is %s, the image %s", o.Ironic.Endpoint, c.Image)
		}
		want := []string{"https://etcd-0.example.com:2379", "https://etcd-1.example.com:2379"}
		if diff := cmp.Diff(want, o.Recommended.Etcd.StorageConfig.Transport.ServerList); diff != "" {
			t.Error("etcd servers:", diff)
		}
	})
}

func TestReplicasFitTheStorage(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		d := only[*appsv1.Deployment](t, objs)
		strategy := d.Spec.Strategy
		if options(t, container(t, objs)).DataDir == "" {
			if *d.Spec.Replicas < 2 || strategy.RollingUpdate == nil || strategy.RollingUpdate.MaxUnavailable.String() != "0" {
				t.Errorf("%d replicas, strategy %v: an update interrupts the API", *d.Spec.Replicas, strategy)
			}
			return
		}
		// Two processes cannot share a data directory.
		if *d.Spec.Replicas != 1 || strategy.Type != appsv1.RecreateDeploymentStrategyType {
			t.Errorf("%d replicas, strategy %v on one data directory", *d.Spec.Replicas, strategy)
		}
		claim := only[*corev1.PersistentVolumeClaim](t, objs).Name
		if !slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
		}) {
			t.Errorf("claim %s is not mounted", claim)
		}
	})
}

func TestRequestsReachPods(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		d := only[*appsv1.Deployment](t, objs)
		pod := labels.Set(d.Spec.Template.Labels)
		service := named[*corev1.Service](objs, name)
		selectors := []*metav1.LabelSelector{
			d.Spec.Selector, {MatchLabels: service.Spec.Selector}, named[*policyv1.PodDisruptionBudget](objs, name).Spec.Selector,
		}
		for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
			selectors = append(selectors, spread.LabelSelector)
		}
		for _, policy := range all[*networkingv1.NetworkPolicy](objs) {
			if !strings.HasPrefix(policy.Name, etcdName) {
				selectors = append(selectors, &policy.Spec.PodSelector)
			}
		}
		for _, s := range selectors {
			selector, err := metav1.LabelSelectorAsSelector(s)
			if err != nil || selector.Empty() || !selector.Matches(pod) {
				t.Errorf("selector %v does not select the pods, %v (%v)", s, pod, err)
			}
		}

		for _, a := range all[*apiService](objs) {
			if to := a.Spec.Service; to.Namespace != service.Namespace || to.Name != service.Name || to.Port != service.Spec.Ports[0].Port {
				t.Errorf("the APIService %s names %v, the Service is %s/%s:%d", a.Name, to, service.Namespace, service.Name, service.Spec.Ports[0].Port)
			}
		}
		c := container(t, objs)
		port := c.Ports[0]
		if target := service.Spec.Ports[0].TargetPort.String(); target != port.Name && target != strconv.Itoa(int(port.ContainerPort)) {
			t.Errorf("the Service's target port is %s, the container's %s, %d", target, port.Name, port.ContainerPort)
		}
		if listens := options(t, c).Recommended.SecureServing.BindPort; int(port.ContainerPort) != listens {
			t.Errorf("the server listens on %d, the container port is %d", listens, port.ContainerPort)
		}
		policy := named[*networkingv1.NetworkPolicy](objs, name)
		if in := policy.Spec.Ingress; len(in) != 1 || len(in[0].From) != 0 || in[0].Ports[0].Port.IntVal != port.ContainerPort {
			t.Errorf("the NetworkPolicy allows %v, want everybody to port %d", in, port.ContainerPort)
		}
		for _, obj := range objs {
			if ns := obj.GetNamespace(); ns != "" && ns != namespace && ns != "team-a" && obj.GetName() != name+"-auth-reader" {
				t.Errorf("%s is in namespace %s", obj.GetName(), ns)
			}
		}
	})
}

func TestKubeAPIServerVerifiesTheServer(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		for _, group := range []string{"metal3.io", "ironic.metal3-apiserver.io"} {
			a := named[*apiService](objs, "v1alpha1."+group)
			if a == nil {
				t.Fatalf("there is no APIService for %s", group)
			}
			if a.Spec.Group != group || a.Spec.Version != "v1alpha1" {
				t.Errorf("APIService %s is for %s/%s", a.Name, a.Spec.Group, a.Spec.Version)
			}
			verifyAPIService(t, objs, a)
		}
	})
}

// verifyAPIService checks that kube-apiserver trusts the server's certificate, and no other.
func verifyAPIService(t *testing.T, objs objects, a *apiService) {
	t.Helper()
	if a.Spec.InsecureSkipTLSVerify {
		t.Error("insecureSkipTLSVerify")
	}
	// With this label, kube-apiserver gives the group to the CRDs as soon as there is one.
	if _, ok := a.Labels["kube-aggregator.kubernetes.io/automanaged"]; ok {
		t.Error("the APIService has the label automanaged")
	}
	var secret string
	for _, volume := range only[*appsv1.Deployment](t, objs).Spec.Template.Spec.Volumes {
		if volume.Name == "serving" {
			secret = volume.Secret.SecretName
		}
	}
	if len(a.Spec.CABundle) > 0 {
		verifyBundle(t, a.Spec.CABundle, named[*corev1.Secret](objs, secret))
		return
	}
	ns, from, _ := strings.Cut(a.Annotations["cert-manager.io/inject-ca-from"], "/")
	cert := named[*certificate](objs, from)
	if cert == nil || cert.Namespace != ns {
		t.Fatalf("no Certificate %s/%s to take the CA bundle from", ns, from)
	}
	if cert.Spec.SecretName != secret || !slices.Contains(cert.Spec.DNSNames, host) || !slices.Contains(cert.Spec.Usages, "server auth") {
		t.Errorf("Certificate %+v is not for the Secret %s and %s", cert.Spec, secret, host)
	}
	ca := named[*issuer](objs, cert.Spec.IssuerRef.Name)
	if ca == nil || ca.Spec.CA == nil || !slices.ContainsFunc(all[*certificate](objs), func(c *certificate) bool {
		signer := named[*issuer](objs, c.Spec.IssuerRef.Name)
		return c.Spec.IsCA && c.Spec.SecretName == ca.Spec.CA.SecretName && signer != nil && signer.Spec.SelfSigned != nil
	}) {
		t.Errorf("issuer %s has no authority", cert.Spec.IssuerRef.Name)
	}
}

func verifyBundle(t *testing.T, bundle []byte, secret *corev1.Secret) {
	t.Helper()
	if secret == nil {
		t.Fatal("no Secret with the certificate")
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		t.Fatal("caBundle holds no certificate")
	}
	// By default, Verify requires a certificate for server authentication.
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
		t.Error(err)
	}
}

func TestPodSecurity(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		pod := only[*appsv1.Deployment](t, objs).Spec.Template.Spec
		c := container(t, objs)
		if s := pod.SecurityContext; !ptr.Deref(s.RunAsNonRoot, false) || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("pod: %v", s)
		}
		want := &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
		if diff := cmp.Diff(want, c.SecurityContext); diff != "" {
			t.Error(diff)
		}
		if pod.PriorityClassName != "system-cluster-critical" || pod.ServiceAccountName != name {
			t.Errorf("priority class %q, service account %q", pod.PriorityClassName, pod.ServiceAccountName)
		}
		// A restart helps neither a server without Ironic, which serves the recorded status,
		// nor a server without etcd, which may come back.
		if path := c.LivenessProbe.HTTPGet.Path; path != "/livez?exclude=etcd" {
			t.Errorf("liveness probe %s", path)
		}
	})
}

// TestNamespaceIsNotOurs checks that the namespace, in which Ironic may be, is in nothing that is applied and removed with the
// server, and that the file that creates it keeps no pods out: those of Ironic use the network of their host.
func TestNamespaceIsNotOurs(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		for _, ns := range all[*corev1.Namespace](objs) {
			t.Errorf("the Namespace %s would be removed with the server, and everything in it", ns.Name)
		}
	})
	ns := only[*corev1.Namespace](t, parse(t, []byte(readDoc(t, "apiservice/namespace.yaml"))))
	if _, enforces := ns.Labels["pod-security.kubernetes.io/enforce"]; enforces || ns.Name != namespace {
		t.Errorf("the Namespace %s has the labels %v", ns.Name, ns.Labels)
	}
}

// TestPriorityClassIsAllowed checks that a ResourceQuota lets the namespace have pods with the system's priority class, which some
// clusters admit only where there is one, and that it does not limit how many: other programs are in the namespace, too.
func TestPriorityClassIsAllowed(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		quota := only[*corev1.ResourceQuota](t, objs)
		var classes []string
		if selector := quota.Spec.ScopeSelector; selector != nil && len(quota.Spec.Scopes) == 0 {
			for _, e := range selector.MatchExpressions {
				if e.ScopeName != corev1.ResourceQuotaScopePriorityClass || e.Operator != corev1.ScopeSelectorOpIn {
					t.Errorf("the ResourceQuota is for pods with %v", e)
				}
				classes = append(classes, e.Values...)
			}
		}
		if pods := quota.Spec.Hard.Pods(); quota.Namespace != namespace || len(quota.Spec.Hard) != 1 || pods.Value() < 1e6 {
			t.Errorf("in %s, it limits %v", quota.Namespace, quota.Spec.Hard)
		}
		used := sets.New[string]()
		for _, template := range podTemplates(objs) {
			if class := template.Spec.PriorityClassName; class != "" {
				used.Insert(class)
			}
		}
		if diff := cmp.Diff(sets.List(used), classes); diff != "" {
			t.Errorf("priority classes (-used +in the ResourceQuota):\n%s", diff)
		}
	})
}

// TestBaseHasEachFile checks that the base installs all of its files: test/testbed applies those of roles by their names, and
// test/security asks what they allow.
func TestBaseHasEachFile(t *testing.T) {
	const base = "apiservice/base/"
	content, err := os.ReadFile(base + "kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(base + "*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if file = filepath.Base(file); file != "kustomization.yaml" && !strings.Contains(string(content), "\n- "+file+"\n") {
			t.Errorf("kustomization.yaml does not list %s", file)
		}
	}
}

func TestOnlyOperatorRoleMayCreateActions(t *testing.T) {
	actions := []string{"baremetalhosts/power", "baremetalhosts/inspect", "baremetalhosts/retry",
		"baremetalhosts/maintenance", "baremetalhosts/bootdevice", "baremetalhosts/nmi", "baremetalhosts/indicator"}
	takeover := []string{"baremetalhosts/takeover"}
	transfer := []string{"baremetalhosts/transfer"}
	console := []string{"baremetalhosts/console"}
	rebuild := []string{"baremetalhosts/rebuild"}
	clean := []string{"baremetalhosts/clean"}
	forEach(t, func(t *testing.T, objs objects) {
		may := map[string][]string{}
		for _, role := range all[*rbacv1.ClusterRole](objs) {
			for _, rule := range role.Rules {
				for _, list := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
					if slices.Contains(list, "*") {
						t.Errorf("%s has a wildcard rule: %v", role.Name, rule)
					}
				}
				for _, resource := range rule.Resources {
					if slices.Contains(slices.Concat(actions, takeover, transfer, console, rebuild, clean), resource) && slices.Contains(rule.Verbs, "create") {
						may[role.Name] = append(may[role.Name], resource)
					}
				}
			}
		}
		if diff := cmp.Diff(map[string][]string{"metal3-baremetalhosts-operator": actions, "metal3-baremetalhosts-takeover": takeover, "metal3-baremetalhosts-transfer": transfer, "metal3-baremetalhosts-console": console, "metal3-baremetalhosts-rebuild": rebuild, "metal3-baremetalhosts-clean": clean}, may); diff != "" {
			t.Error("who may create actions:", diff)
		}
		// Candidates are the machines of everybody, and IronicInstances say who gets the passwords of their BMCs.
		for _, role := range all[*rbacv1.ClusterRole](objs) {
			for resource, only := range map[string]string{"candidates": "metal3-candidates-reader", "ironicinstances": "metal3-ironics-editor"} {
				sees := slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, resource) })
				if sees != (role.Name == only) || sees && len(role.Labels) > 0 {
					t.Errorf("%s may see %s: %t, with the labels %v", role.Name, resource, sees, role.Labels)
				}
			}
		}
		// kustomize renames everything that it takes for a reference to a ConfigMap.
		var leases []string
		for _, rule := range named[*rbacv1.Role](objs, name+"-leader-election").Rules {
			leases = append(leases, rule.ResourceNames...)
		}
		if diff := cmp.Diff([]string{app.NewOptions().LeaderElection.ResourceName}, leases); diff != "" {
			t.Error("the Lease that may be updated:", diff)
		}
	})
}

// TestWhereSecretsCanBeRead checks that the server has permissions on the Secrets of exactly those
// namespaces whose hosts it manages, and creates Secrets only where that was asked for.
func TestWhereSecretsCanBeRead(t *testing.T) {
	forEach(t, func(t *testing.T, objs objects) {
		server := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}}
		where := func(verb string) (namespaces []string) {
			var roles []string
			for _, role := range all[*rbacv1.ClusterRole](objs) {
				if slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
					return slices.Contains(r.Resources, "secrets") && slices.Contains(r.Verbs, verb)
				}) {
					roles = append(roles, role.Name)
				}
			}
			for _, binding := range all[*rbacv1.ClusterRoleBinding](objs) {
				if slices.Contains(roles, binding.RoleRef.Name) {
					namespaces = append(namespaces, "all namespaces")
				}
			}
			for _, binding := range all[*rbacv1.RoleBinding](objs) {
				if slices.Contains(roles, binding.RoleRef.Name) && cmp.Equal(binding.Subjects, server) {
					namespaces = append(namespaces, binding.Namespace)
				}
			}
			return namespaces
		}
		read, created, managed := []string{"all namespaces"}, []string(nil), []string(nil)
		if strings.HasSuffix(t.Name(), "/namespaces") {
			read, created = []string{"team-a"}, []string{"team-a"}
			managed = []string{"metal3", "team-a"} // that of metal3 is not in this kustomization
		}
		if diff := cmp.Diff(read, where("get")); diff != "" {
			t.Error("where Secrets can be read (- want, + got):", diff)
		}
		for _, verb := range []string{"create", "delete"} {
			if diff := cmp.Diff(created, where(verb)); diff != "" {
				t.Errorf("where the server may %s Secrets (- want, + got): %s", verb, diff)
			}
		}
		if diff := cmp.Diff(managed, options(t, container(t, objs)).Settings.Namespaces); diff != "" {
			t.Error("managed namespaces (- want, + got):", diff)
		}
	})
}

func TestRolesCoverAllKinds(t *testing.T) {
	kinds := []string{
		"baremetalhosts", "baremetalswitches", "bmceventsubscriptions", "dataimages", "firmwareschemas", "hardwaredata", "hostclaims",
		"hostdeploypolicies", "hostfirmwarecomponents", "hostfirmwaresettings", "hostnetworkattachments", "hostupdatepolicies", "preprovisioningimages",
	}
	forEach(t, func(t *testing.T, objs objects) {
		// granted returns the resources on which the roles that aggregate into the role to
		// grant it a verb.
		granted := func(to, verb string) (resources []string) {
			for _, role := range all[*rbacv1.ClusterRole](objs) {
				for _, rule := range role.Rules {
					if role.Labels["rbac.authorization.k8s.io/aggregate-to-"+to] != "true" || !slices.Contains(rule.Verbs, verb) {
						continue
					}
					for _, resource := range rule.Resources {
						if !strings.Contains(resource, "/") {
							resources = append(resources, resource)
						}
					}
				}
			}
			slices.Sort(resources)
			return resources
		}
		if !strings.Contains(t.Name(), "/site-") {
			// The component aggregated-roles is not included: nobody gets anything unasked.
			for _, to := range []string{"view", "edit", "admin"} {
				if got := slices.Concat(granted(to, "get"), granted(to, "create")); got != nil {
					t.Errorf("%s gets permissions on %v", to, got)
				}
			}
			return
		}
		policies := func(resource string) bool { return strings.HasSuffix(resource, "policies") }
		for _, test := range []struct {
			to, verb string
			want     []string
		}{
			{"view", "watch", kinds},
			{"view", "create", nil},
			{"edit", "watch", kinds},
			{"edit", "create", slices.DeleteFunc(slices.Clone(kinds), policies)},
			{"admin", "create", kinds},
		} {
			if diff := cmp.Diff(test.want, granted(test.to, test.verb)); diff != "" {
				t.Errorf("resources that %s may %s (- want, + got):\n%s", test.to, test.verb, diff)
			}
		}
	})
}

func TestDockerfileSetsTheVersion(t *testing.T) {
	content, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"Version", "Commit"} {
		if want := "-X github.com/metal3-io/metal3-apiserver/pkg/version." + variable + "="; !strings.Contains(string(content), want) {
			t.Errorf("there is no %s in the Dockerfile", want)
		}
	}
}
