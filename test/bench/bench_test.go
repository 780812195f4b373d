// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

var (
	release    = flag.String("ironic", "trixie", "the Debian release that the real Ironic comes from: bookworm, trixie or sid; sim: read from the simulator instead, and provision nothing")
	serverArgs = flag.String("serverargs", "", "flags for the server that lists and watches are measured of, such as --watch-cache=false")
	profileDir = flag.String("serverprofile", "", "directory for profiles of the server: of its CPU during reads, of its heap with many watchers")
	keep       = flag.Bool("keep", false, "keep the logs of all that was started")
)

// simulator is the value of -ironic that leaves the real one out.
const simulator = "sim"

// oneThousand is the bed for what depends on the speed of Ironic.
func oneThousand() bedKind { return bedKind{hosts: small, realIronic: *release != simulator} }

// small and large are the numbers of hosts to measure at.
const small, large = 1000, 10000

// shared is what the benchmarks share, started by the first that needs it.
var shared struct {
	dir  string
	kube *testbed.Kube
	// reader is a user who may read hosts, and no more than that.
	reader *testbed.Client
	bed    *bed
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := printFigures(os.Stdout); err != nil {
		code = 1
	}
	if err := stopShared(code != 0 || *keep); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 1
	}
	os.Exit(code)
}

func stopShared(keep bool) error {
	var errs []error
	if shared.bed != nil {
		errs = append(errs, shared.bed.stop())
	}
	if shared.kube != nil {
		errs = append(errs, shared.kube.Stop())
	}
	if shared.dir == "" {
		return nil
	}
	if keep {
		fmt.Fprintln(os.Stderr, "bench: logs are in", shared.dir)
	} else {
		errs = append(errs, os.RemoveAll(shared.dir))
	}
	return errors.Join(errs...)
}

// realIronic skips the benchmark where no real Ironic can run, and says so in the
// table, too.
func realIronic(b *testing.B) {
	b.Helper()
	err := testbed.DebianIronicMissing()
	if *release == simulator {
		err = errors.New("-ironic=" + simulator)
	}
	if err != nil {
		record(figure{what: b.Name(), measured: "left out: " + err.Error()})
		b.Skip(err)
	}
}

// at returns a bed of this kind, all of whose hosts are recorded and quiet.
func at(b *testing.B, kind bedKind) *bed {
	b.Helper()
	if kind.realIronic {
		realIronic(b)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 15*time.Minute)
	defer cancel()
	if shared.bed == nil || shared.bed.kind != kind {
		if err := leaveAlone(ctx); err != nil {
			b.Fatal(err)
		}
		var err error
		if shared.bed, err = newBed(ctx, kind); err != nil {
			b.Fatal(err)
		}
	}
	return shared.bed
}

// leaveAlone makes room: of what the benchmarks share only the control plane is
// left. An idle server polls its Ironic, which the next one would hear.
func leaveAlone(ctx context.Context) error {
	if shared.bed != nil {
		err := shared.bed.stop()
		shared.bed = nil
		if err != nil {
			return err
		}
	}
	if shared.kube == nil {
		return startKube(ctx)
	}
	// The next server has an etcd of its own. Beside the Lease of the last one, it would take that for one
	// that was restored from a backup, and do nothing to any host.
	_, _, err := shared.kube.Kubectl(ctx, "", "delete", "leases.coordination.k8s.io", "--all", "-n", testbed.Namespace)
	return err
}

func startKube(ctx context.Context) (err error) {
	if shared.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	dir := filepath.Join(shared.dir, "kube")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if shared.kube, err = testbed.StartKube(ctx, testbed.KubeOptions{Dir: dir}); err != nil {
		return err
	}
	if shared.reader, err = shared.kube.ClientFor("reader"); err != nil {
		return err
	}
	core, err := kubernetes.NewForConfig(shared.kube.Admin.Config)
	if err != nil {
		return err
	}
	for _, name := range []string{namespace, fleetNamespace} {
		if _, err := core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	meta := metav1.ObjectMeta{Name: "bench-reader"}
	if _, err := core.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{metal3.GroupName, peerGroup}, Resources: []string{"baremetalhosts"}, Verbs: []string{"get", "list", "watch"},
	}}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = core.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	}, metav1.CreateOptions{})
	return err
}
