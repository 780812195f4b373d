// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"k8s.io/client-go/discovery"
)

const buildTools = "hack/tools/build.sh"

// kubeProgram returns the path of kube-apiserver or kube-controller-manager: in the folder KUBE_BIN if that is set, for
// example to test with another version of Kubernetes, or else in bin/ of the checkout.
func kubeProgram(name string) (string, error) {
	if folder := os.Getenv("KUBE_BIN"); folder != "" {
		return filepath.Join(folder, name), nil
	}
	return builtProgram(name, buildTools)
}

// kubeMinor returns the minor version of kube-apiserver, such as 37.
func kubeMinor(ctx context.Context) (minor int, err error) {
	program, err := kubeProgram("kube-apiserver")
	if err != nil {
		return 0, err
	}
	printed, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", program, err)
	}
	if _, err := fmt.Sscanf(string(printed), "Kubernetes v1.%d.", &minor); err != nil {
		return 0, fmt.Errorf("%s --version prints %q: %w", program, printed, err)
	}
	return minor, nil
}

// KubeOptions are the options of StartKube.
type KubeOptions struct {
	// Dir is the directory for the logs, keys, kubeconfigs and etcd's data. It must exist.
	Dir string
	// ControllerManager starts the controllers that delete namespaces and orphans, that release
	// PersistentVolumeClaims, that count objects for quotas, and that fill the aggregated ClusterRoles (without which admin, edit and
	// view are empty).
	ControllerManager bool
	// Workloads also starts the controllers that make pods of Deployments and Jobs. Nodes runs them.
	Workloads bool
	// AuditPolicy is the audit policy of kube-apiserver, as YAML or JSON. If it is empty, there is no
	// audit log.
	AuditPolicy string
}

// Kube is a control plane: etcd, kube-apiserver with the aggregation layer and RBAC, and optionally
// kube-controller-manager. It needs no privileges.
type Kube struct {
	// Admin is a user in system:masters.
	Admin *Client
	// EtcdEndpoint is the URL of kube-apiserver's etcd. metal3-apiserver can use it, too.
	EtcdEndpoint string

	options KubeOptions
	kubectl string
	port    int
	minor   int // of the version of Kubernetes
	// ca signs everything except the front proxy's certificate. If it also signed that one, every
	// client could claim to be any user in X-Remote-User.
	ca, frontProxyCA *authority
	// applying is held by ApplyRBAC: the second of two kubectl apply that create the same object fails.
	applying sync.Mutex

	etcd                   *StoreEtcd
	apiserver, controllers *process
}

// StartKube starts a control plane and waits until it is ready.
func StartKube(ctx context.Context, options KubeOptions) (*Kube, error) {
	k := &Kube{options: options}
	if err := k.prepare(ctx); err != nil {
		return nil, err
	}
	if err := k.start(ctx); err != nil {
		return nil, errors.Join(err, k.Stop())
	}
	return k, nil
}

// Minor returns the minor version of kube-apiserver, such as 37.
func (k *Kube) Minor() int { return k.minor }

// AuditLogPath is the path of kube-apiserver's audit log.
func (k *Kube) AuditLogPath() string { return k.path("audit.log") }

func (k *Kube) path(name string) string { return filepath.Join(k.options.Dir, name) }

func (k *Kube) prepare(ctx context.Context) error {
	var err error
	if k.options.Dir, err = filepath.Abs(k.options.Dir); err != nil {
		return err
	}
	if k.kubectl, err = builtProgram("kubectl", buildTools); err != nil {
		return err
	}
	if k.minor, err = kubeMinor(ctx); err != nil {
		return err
	}
	if k.port, err = freePort(); err != nil {
		return err
	}
	if k.ca, err = newAuthority("testbed-ca"); err != nil {
		return err
	}
	if k.frontProxyCA, err = newAuthority("testbed-front-proxy-ca"); err != nil {
		return err
	}
	serving, err := k.ca.server("kubernetes.default.svc")
	if err != nil {
		return err
	}
	frontProxy, err := k.frontProxyCA.client("front-proxy-client")
	if err != nil {
		return err
	}
	// Only the key of this pair is used, to sign the tokens of service accounts.
	serviceAccounts, err := k.ca.client("service-accounts")
	if err != nil {
		return err
	}
	if k.Admin, err = k.ClientFor("admin", "system:masters"); err != nil {
		return err
	}
	return errors.Join(
		serving.write(k.path("apiserver")),
		frontProxy.write(k.path("front-proxy")),
		serviceAccounts.write(k.path("service-accounts")),
		os.WriteFile(k.path("ca.crt"), k.ca.pem, 0o644),
		os.WriteFile(k.path("front-proxy-ca.crt"), k.frontProxyCA.pem, 0o644),
	)
}

func (k *Kube) start(ctx context.Context) error {
	var err error
	if k.etcd, err = NewStoreEtcd(k.options.Dir); err != nil {
		return err
	}
	k.EtcdEndpoint = k.etcd.Endpoint
	if err := k.etcd.Start(ctx); err != nil {
		return err
	}
	if err := k.StartAPIServer(ctx); err != nil {
		return err
	}
	if k.options.ControllerManager {
		return k.StartControllers(ctx)
	}
	return nil
}

// StartAPIServer starts kube-apiserver again after StopAPIServer and waits until it is ready.
func (k *Kube) StartAPIServer(ctx context.Context) error {
	var audit []string
	if k.options.AuditPolicy != "" {
		policy := k.path("audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(k.options.AuditPolicy), 0o600); err != nil {
			return err
		}
		audit = []string{"--audit-policy-file=" + policy, "--audit-log-path=" + k.AuditLogPath()}
	}
	var err error
	k.apiserver, err = k.startAPIServer(ctx, "kube-apiserver", k.Admin, k.port, audit)
	return err
}

// StartSecondAPIServer starts another kube-apiserver of the same cluster, with additional flags. It
// returns a client of it for an administrator, and the function that stops it.
func (k *Kube) StartSecondAPIServer(ctx context.Context, flags ...string) (admin *Client, stop func() error, err error) {
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	pair, err := k.ca.client("admin", "system:masters")
	if err != nil {
		return nil, nil, err
	}
	name := "kube-apiserver-" + strconv.Itoa(port)
	admin, err = newClient(k.options.Dir, name, k.kubectl, "https://127.0.0.1:"+strconv.Itoa(port), k.ca.pem, pair)
	if err != nil {
		return nil, nil, err
	}
	second, err := k.startAPIServer(ctx, name, admin, port, flags)
	if err != nil {
		return nil, nil, errors.Join(err, second.kill())
	}
	return admin, second.kill, nil
}

// startAPIServer starts a kube-apiserver with additional flags and waits until it is ready. It also
// returns the process if that is not ready in time.
func (k *Kube) startAPIServer(ctx context.Context, name string, admin *Client, port int, flags []string) (*process, error) {
	binary, err := kubeProgram("kube-apiserver")
	if err != nil {
		return nil, err
	}
	flags = slices.Clone(flags)
	if k.minor >= 33 { // older ones do not pass on the UIDs of users
		flags = append(flags, "--requestheader-uid-headers=X-Remote-Uid")
	}
	apiserver, err := command{
		name: name, log: k.path(name + ".log"), path: binary,
		args: append(flags,
			"--etcd-servers="+k.EtcdEndpoint,
			"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
			// 127.0.0.1 is not allowed as the endpoint of the kubernetes Service, and the machine may have no other address.
			"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
			"--tls-cert-file="+k.path("apiserver.crt"), "--tls-private-key-file="+k.path("apiserver.key"),
			"--client-ca-file="+k.path("ca.crt"),
			"--authorization-mode=RBAC",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file="+k.path("service-accounts.key"),
			"--service-account-signing-key-file="+k.path("service-accounts.key"),
			"--service-cluster-ip-range=10.0.0.0/24",
			// How kube-apiserver authenticates to aggregated servers, and tells them whom to trust
			// (ConfigMap kube-system/extension-apiserver-authentication).
			"--proxy-client-cert-file="+k.path("front-proxy.crt"), "--proxy-client-key-file="+k.path("front-proxy.key"),
			"--requestheader-client-ca-file="+k.path("front-proxy-ca.crt"),
			"--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			// With routing to endpoints, an APIService could not name a Service of type ExternalName,
			// and an EndpointSlice cannot contain 127.0.0.1.
			"--enable-aggregator-routing=false",
		),
	}.start()
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(admin.Config)
	if err != nil {
		return apiserver, err
	}
	return apiserver, apiserver.waitReady(ctx, func(ctx context.Context) error {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// StopAPIServer stops only kube-apiserver. etcd keeps its objects.
func (k *Kube) StopAPIServer() error {
	// An orderly shutdown would wait a minute for open watches. Killing it loses nothing.
	return k.apiserver.kill()
}

// SuspendAPIServer stops kube-apiserver's process without ending it, until ResumeAPIServer.
func (k *Kube) SuspendAPIServer() error { return k.apiserver.signal(syscall.SIGSTOP) }

// ResumeAPIServer lets kube-apiserver's process go on after SuspendAPIServer.
func (k *Kube) ResumeAPIServer() error { return k.apiserver.signal(syscall.SIGCONT) }

// StartControllers starts kube-controller-manager if KubeOptions did not. It discovers new kinds
// only every 30 seconds, so kinds that it should know from the beginning must exist before.
func (k *Kube) StartControllers(ctx context.Context) error {
	binary, err := kubeProgram("kube-controller-manager")
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	identity, err := k.ClientFor(controllers, "system:masters")
	if err != nil {
		return err
	}
	names := "namespace-controller,garbage-collector-controller,resourcequota-controller,clusterrole-aggregation-controller,persistentvolumeclaim-protection-controller"
	if k.options.Workloads {
		names += ",deployment-controller,replicaset-controller,job-controller"
	}
	k.controllers, err = command{
		name: "kube-controller-manager", log: k.path("kube-controller-manager.log"), path: binary,
		args: []string{
			"--kubeconfig=" + identity.Kubeconfig,
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--cert-dir=" + k.path("kube-controller-manager"),
			"--controllers=" + names,
			"--leader-elect=false",
		},
	}.start()
	if err != nil {
		return err
	}
	// Its certificate is self-signed. The answer "ok" is not secret, so it need not be verified.
	client := insecureHTTPClient()
	defer client.CloseIdleConnections()
	return k.controllers.waitReady(ctx, func(ctx context.Context) error {
		return httpOK(ctx, client, fmt.Sprintf("https://127.0.0.1:%d/healthz", port))
	})
}

// ClientFor issues a client certificate for user in groups.
func (k *Kube) ClientFor(user string, groups ...string) (*Client, error) {
	pair, err := k.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return newClient(k.options.Dir, fileName(user), k.kubectl, "https://127.0.0.1:"+strconv.Itoa(k.port), k.ca.pem, pair)
}

// Kubectl runs kubectl as the administrator; see Client.Kubectl.
func (k *Kube) Kubectl(ctx context.Context, stdin string, args ...string) (stdout, stderr string, err error) {
	return k.Admin.Kubectl(ctx, stdin, args...)
}

// Stop stops the control plane.
func (k *Kube) Stop() error {
	err := errors.Join(k.controllers.stop(), k.apiserver.kill())
	if k.etcd != nil {
		err = errors.Join(err, k.etcd.run.stop())
	}
	return err
}
