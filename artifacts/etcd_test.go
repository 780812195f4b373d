// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"flag"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/server/v3/embed"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/metal3-io/metal3-apiserver/cmd/metal3-apiserver/app"
)

const etcdName = "metal3-etcd"

// highlyAvailable returns the objects of the installation with an etcd of three members.
func highlyAvailable(t *testing.T) objects {
	t.Helper()
	return parse(t, rendered(t)["high-availability"])
}

// etcdContainer returns the container of a member, and its arguments and environment for the member with an ordinal.
func etcdContainer(t *testing.T, objs objects, ordinal int) (c corev1.Container, args []string, env map[string]string) {
	t.Helper()
	c = only[*appsv1.StatefulSet](t, objs).Spec.Template.Spec.Containers[0]
	env = map[string]string{}
	for _, from := range c.EnvFrom {
		for key, value := range named[*corev1.ConfigMap](objs, from.ConfigMapRef.Name).Data {
			env[key] = value
		}
	}
	expand := func(text string) string {
		return strings.ReplaceAll(text, "$(ETCD_NAME)", fmt.Sprintf("%s-%d", etcdName, ordinal))
	}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			e.Value = "$(" + e.Name + ")"
		}
		env[e.Name] = expand(e.Value)
	}
	for _, arg := range c.Args {
		args = append(args, expand(arg))
	}
	return c, args, env
}

// etcdFlags returns a function for the values that the flags of etcd have in the member with an ordinal, from its
// arguments and its environment.
func etcdFlags(t *testing.T, objs objects, ordinal int) func(name string) string {
	t.Helper()
	_, args, env := etcdContainer(t, objs, ordinal)
	if args[0] != "etcd" {
		t.Fatalf("the arguments are %v", args)
	}
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(fs)
	fs.String("initial-cluster-state", "", "one of the flags that only the program has")
	for name, value := range env {
		if err := fs.Set(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "ETCD_"), "_", "-")), value); err != nil {
			t.Errorf("etcd would not accept %s: %v", name, err)
		}
	}
	if err := fs.Parse(args[1:]); err != nil {
		t.Fatalf("etcd would not accept its arguments: %v", err)
	}
	return func(name string) string {
		t.Helper()
		f := fs.Lookup(name)
		if f == nil {
			t.Fatalf("etcd has no flag --%s", name)
		}
		return f.Value.String()
	}
}

// TestEtcdMembers checks that the members find each other and their clients, with certificates for the names that
// they use.
func TestEtcdMembers(t *testing.T) {
	objs := highlyAvailable(t)
	set := only[*appsv1.StatefulSet](t, objs)
	if set.Name != etcdName || *set.Spec.Replicas != 3 || set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Errorf("%d replicas of %s, started %s", *set.Spec.Replicas, set.Name, set.Spec.PodManagementPolicy)
	}
	service := named[*corev1.Service](objs, set.Spec.ServiceName)
	if service == nil || service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Fatalf("the Service %+v does not give members names before they are ready", service)
	}
	servers := options(t, container(t, objs)).Recommended.Etcd.StorageConfig.Transport.ServerList
	if len(servers) != int(*set.Spec.Replicas) {
		t.Errorf("the server knows the members %v", servers)
	}
	for ordinal := range int(*set.Spec.Replicas) {
		value := etcdFlags(t, objs, ordinal)
		host := fmt.Sprintf("%s-%d.%s.%s.svc", set.Name, ordinal, service.Name, namespace)
		if want := fmt.Sprintf("%s-%d", etcdName, ordinal); value("name") != want {
			t.Errorf("member %d has the name %s", ordinal, value("name"))
		}
		for _, use := range []struct{ url, certificate, file string }{
			{servers[ordinal], etcdName + "-server", value("cert-file")},
			{value("initial-advertise-peer-urls"), etcdName + "-peer", value("peer-cert-file")},
		} {
			u, err := url.Parse(use.url)
			if err != nil || u.Scheme != "https" || u.Hostname() != host {
				t.Errorf("member %d is at %s (%v), want %s", ordinal, use.url, err, host)
			}
			if certificate := named[*certificate](objs, use.certificate); certificate == nil || !slices.Contains(certificate.Spec.DNSNames, host) {
				t.Errorf("the certificate %s is not for %s", use.certificate, host)
			}
			if !strings.HasPrefix(use.file, "/etc/metal3-etcd/") {
				t.Errorf("member %d proves who it is with %q", ordinal, use.file)
			}
		}
		if clients := value("advertise-client-urls"); clients != servers[ordinal] {
			t.Errorf("member %d is at %s for clients, the server knows %s", ordinal, clients, servers[ordinal])
		}
		if own := value("name") + "=" + value("initial-advertise-peer-urls"); !slices.Contains(strings.Split(value("initial-cluster"), ","), own) {
			t.Errorf("%s is not one of the members %s", own, value("initial-cluster"))
		}
		if value("client-cert-auth") != "true" || value("peer-client-cert-auth") != "true" {
			t.Error("members do not require certificates")
		}
	}
}

// TestEtcdCertificates checks that the certificate of a client does not make it a member.
func TestEtcdCertificates(t *testing.T) {
	objs := highlyAvailable(t)
	client, peer := named[*certificate](objs, name+"-etcd-client"), named[*certificate](objs, etcdName+"-peer")
	secret := only[*appsv1.Deployment](t, objs).Spec.Template.Spec.Volumes
	if !slices.ContainsFunc(secret, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == client.Spec.SecretName }) {
		t.Errorf("the server does not use the Secret %s", client.Spec.SecretName)
	}
	// etcd compares the addresses of a client's DNS names with the one that it comes from.
	if len(client.Spec.DNSNames) > 0 || !slices.Contains(client.Spec.Usages, "client auth") {
		t.Errorf("the client's certificate is %+v", client.Spec)
	}
	if allowed := etcdFlags(t, objs, 0)("peer-cert-allowed-cn"); allowed != peer.Spec.CommonName || allowed == client.Spec.CommonName {
		t.Errorf("%q may be a member; members have the name %s, clients %s", allowed, peer.Spec.CommonName, client.Spec.CommonName)
	}
	for _, c := range []*certificate{client, peer, named[*certificate](objs, etcdName+"-server")} {
		if c.Spec.IssuerRef.Name != etcdName+"-ca" {
			t.Errorf("%s is signed by %s, whose other certificates would be trusted as well", c.Name, c.Spec.IssuerRef.Name)
		}
	}
}

// TestEtcdPods checks that members run apart, with few rights, are not restarted for want of a majority, and have room.
func TestEtcdPods(t *testing.T) {
	objs := highlyAvailable(t)
	set := only[*appsv1.StatefulSet](t, objs)
	pod := set.Spec.Template.Spec
	c, _, env := etcdContainer(t, objs, 0)
	own := labels.Set(set.Spec.Template.Labels)
	apart := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	for _, s := range []*metav1.LabelSelector{
		set.Spec.Selector, apart.LabelSelector, named[*policyv1.PodDisruptionBudget](objs, etcdName).Spec.Selector,
		&named[*networkingv1.NetworkPolicy](objs, etcdName).Spec.PodSelector,
		{MatchLabels: named[*corev1.Service](objs, etcdName).Spec.Selector},
	} {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || selector.Empty() || !selector.Matches(own) {
			t.Errorf("selector %v does not select the members, %v (%v)", s, own, err)
		}
	}
	if apart.TopologyKey != corev1.LabelHostname {
		t.Errorf("members are kept apart by %s", apart.TopologyKey)
	}
	if ptr.Deref(pod.AutomountServiceAccountToken, true) || !ptr.Deref(pod.SecurityContext.RunAsNonRoot, false) || !ptr.Deref(c.SecurityContext.ReadOnlyRootFilesystem, false) {
		t.Errorf("a member has more rights than it needs: %+v, %+v", pod.SecurityContext, c.SecurityContext)
	}
	if c.LivenessProbe.HTTPGet.Path != "/livez" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("liveness %s, readiness %s", c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path)
	}
	size := set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().Value()
	if quota, err := strconv.ParseInt(etcdFlags(t, objs, 0)("quota-backend-bytes"), 10, 64); err != nil || quota == 0 || size < 2*quota {
		t.Errorf("a volume of %d bytes has no room for two databases of %d (%v)", size, quota, err)
	}
	if mount := c.VolumeMounts[0]; !strings.HasPrefix(env["ETCD_DATA_DIR"], mount.MountPath+"/") || mount.Name != set.Spec.VolumeClaimTemplates[0].Name {
		t.Errorf("the data are in %s, the volume is at %s", env["ETCD_DATA_DIR"], mount.MountPath)
	}
}

// TestEtcdPorts checks that only those who need it may connect to the members.
func TestEtcdPorts(t *testing.T) {
	objs := highlyAvailable(t)
	may := func(port int32, pod labels.Set) bool {
		return slices.ContainsFunc(named[*networkingv1.NetworkPolicy](objs, etcdName).Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
			if !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntVal == port }) {
				return false
			}
			return len(rule.From) == 0 || slices.ContainsFunc(rule.From, func(peer networkingv1.NetworkPolicyPeer) bool {
				selector, err := metav1.LabelSelectorAsSelector(peer.PodSelector)
				return err == nil && selector.Matches(pod)
			})
		})
	}
	pods := map[string]labels.Set{
		"server":   only[*appsv1.Deployment](t, objs).Spec.Template.Labels,
		"member":   only[*appsv1.StatefulSet](t, objs).Spec.Template.Labels,
		"snapshot": named[*batchv1.CronJob](objs, etcdName+"-snapshot").Spec.JobTemplate.Spec.Template.Labels,
		"other":    {"app.kubernetes.io/name": "other"},
	}
	for _, test := range []struct {
		port int32
		who  []string
	}{
		{2379, []string{"server", "snapshot"}},
		{2380, []string{"member"}},
		{2381, []string{"member", "other", "server", "snapshot"}},
	} {
		var who []string
		for pod, set := range pods {
			if may(test.port, set) {
				who = append(who, pod)
			}
		}
		slices.Sort(who)
		if diff := cmp.Diff(test.who, who); diff != "" {
			t.Errorf("who may connect to port %d (- want, + got): %s", test.port, diff)
		}
	}
}

// TestEtcdCommands checks that the program accepts the arguments of the CronJobs.
func TestEtcdCommands(t *testing.T) {
	objs := highlyAvailable(t)
	for _, cron := range all[*batchv1.CronJob](objs) {
		pod := cron.Spec.JobTemplate.Spec.Template.Spec
		args := pod.Containers[0].Args
		cmd, rest, err := app.NewEtcdCommand(t.Context()).Find(args[1:])
		if err != nil || cmd.HasSubCommands() || !strings.HasPrefix(strings.Join(args, " ")+" ", cmd.CommandPath()+" ") {
			t.Fatalf("%s: %v is %s (%v)", cron.Name, args, cmd.CommandPath(), err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", cron.Name, err)
		}
		if directory := cmd.Flag("directory"); directory != nil && directory.Value.String() != pod.Containers[0].VolumeMounts[0].MountPath {
			t.Errorf("%s saves to %s, its volume is at %s", cron.Name, directory.Value, pod.Containers[0].VolumeMounts[0].MountPath)
		}
	}
}

// etcdInDocs is a command of "metal3-apiserver etcd", which some pages call by a function run.
var etcdInDocs = regexp.MustCompile(`(?m)(?:metal3-apiserver etcd|^ +run) ((?:snapshot|maintain|replace)[^\\\n]*(?:\\\n[^\\\n]*)*)$`)

// TestDocumentedEtcdCommands checks that the commands in the pages about etcd exist with their flags and arguments.
func TestDocumentedEtcdCommands(t *testing.T) {
	found := 0
	for _, page := range []string{"high-availability", "troubleshooting"} {
		for _, match := range etcdInDocs.FindAllStringSubmatch(readDoc(t, "../docs/"+page+".md"), -1) {
			found++
			line := strings.ReplaceAll(strings.Trim(match[1], "`"), "\\\n", " ")
			line, _, _ = strings.Cut(line, " <")
			line, _, _ = strings.Cut(line, " >")
			cmd, rest, err := app.NewEtcdCommand(t.Context()).Find(strings.Fields(line))
			if err != nil || cmd.HasSubCommands() {
				t.Errorf("docs/%s.md: there is no command %q (%v)", page, line, err)
				continue
			}
			err = cmd.ParseFlags(rest)
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("docs/%s.md: %q: %v", page, line, err)
			}
		}
	}
	if found < 8 {
		t.Errorf("%d commands were found: have they another form now?", found)
	}
}

// TestEtcdIsScraped checks that the ServiceMonitor finds the metrics of the members.
func TestEtcdIsScraped(t *testing.T) {
	var monitor struct {
		Spec struct {
			Selector  metav1.LabelSelector `json:"selector"`
			Endpoints []struct {
				Port string `json:"port"`
			} `json:"endpoints"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(readDoc(t, "monitoring/servicemonitor-etcd.yaml")), &monitor); err != nil {
		t.Fatal(err)
	}
	service := named[*corev1.Service](highlyAvailable(t), etcdName)
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil || !selector.Matches(labels.Set(service.Labels)) {
		t.Errorf("the ServiceMonitor selects %v, the Service has %v (%v)", selector, service.Labels, err)
	}
	if !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == monitor.Spec.Endpoints[0].Port }) {
		t.Errorf("the Service has no port %s", monitor.Spec.Endpoints[0].Port)
	}
}
