// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
)

const (
	// Namespace is the namespace of the server's Service and service account.
	Namespace = "metal3-system"
	// ServiceName is the Service that the APIService names.
	ServiceName = "metal3-apiserver"

	groupVersionPath = "/apis/metal3.io/v1alpha1"
)

// ServerOptions are the options of NewServer.
type ServerOptions struct {
	// Kube is the control plane that the server belongs to.
	Kube *Kube
	// KubeURL is the URL at which the server reaches kube-apiserver, for example that of a proxy. The default is
	// kube-apiserver's own.
	KubeURL string
	// Dir is the directory for the log, keys, kubeconfigs and the data of the embedded etcd. It must
	// exist and be used only by this server.
	Dir string
	// IronicEndpoint is the value of --ironic-endpoint. If it is that of a DebianIronic with a Keystone, the
	// server authenticates as the administrator.
	IronicEndpoint string
	// Clouds is the path of a clouds.yaml, whose cloud CloudName the server uses.
	Clouds string
	// EtcdServers is the value of --etcd-servers, for example Kube.EtcdEndpoint. If it is empty, the
	// server uses an embedded etcd in Dir.
	EtcdServers string
	// RefuseLocalAddresses makes the server refuse BMCs and images with loopback and link-local
	// addresses, as it does by default.
	RefuseLocalAddresses bool
	// ServiceAccount is the name of the service account in Namespace that the server runs as. The
	// default is ServiceName, as in the manifests.
	ServiceAccount string
	// ReadTimeout is how long reads wait for Ironic. By default it is the server's own; servers of a Suite wait long enough for
	// a busy machine.
	ReadTimeout time.Duration
	// Args are additional flags.
	Args []string
	// Program is the path of the server's program, for example of an earlier version. The default is the value of
	// METAL3_APISERVER, or else bin/metal3-apiserver in the checkout.
	Program string
}

// Server is a metal3-apiserver next to a Kube. It keeps its port when it is started again.
type Server struct {
	// Direct is a client for an administrator that bypasses the aggregation layer.
	Direct *Client
	// LogPath is the path of its log.
	LogPath string

	options ServerOptions
	program string
	port    int
	run     *process
}

// StartServer applies the RBAC manifests, starts the server, registers it and
// waits until the API is served through kube-apiserver.
func StartServer(ctx context.Context, options ServerOptions) (*Server, error) {
	s, err := NewServer(options)
	if err != nil {
		return nil, err
	}
	start := func() error {
		if err := s.ApplyRBAC(ctx); err != nil {
			return err
		}
		if err := s.Start(ctx); err != nil {
			return err
		}
		return s.Register(ctx)
	}
	if err := start(); err != nil {
		return nil, errors.Join(err, s.Kill())
	}
	return s, nil
}

// NewServer prepares a server: its port, certificates and kubeconfig.
func NewServer(options ServerOptions) (*Server, error) {
	s := &Server{options: options}
	if s.options.ServiceAccount == "" {
		s.options.ServiceAccount = ServiceName
	}
	var err error
	if s.options.Dir, err = filepath.Abs(options.Dir); err != nil {
		return nil, err
	}
	if s.program = options.Program; s.program == "" {
		if s.program, err = serverProgram(); err != nil {
			return nil, err
		}
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	s.LogPath = filepath.Join(s.options.Dir, "metal3-apiserver.log")
	k := options.Kube
	serving, err := k.ca.server(ServiceName+"."+Namespace+".svc", ServiceName+"."+Namespace+".svc.cluster.local")
	if err != nil {
		return nil, err
	}
	if err := serving.write(s.path("serving")); err != nil {
		return nil, err
	}
	// The user and groups that the token of the service account would have in a cluster.
	identity, err := k.ca.client("system:serviceaccount:"+Namespace+":"+s.options.ServiceAccount,
		"system:serviceaccounts", "system:serviceaccounts:"+Namespace, "system:authenticated")
	if err != nil {
		return nil, err
	}
	if _, err := newClient(s.options.Dir, "server", k.kubectl, cmp.Or(options.KubeURL, k.Admin.Config.Host), k.ca.pem, identity); err != nil {
		return nil, err
	}
	admin, err := k.ca.client("admin", "system:masters")
	if err != nil {
		return nil, err
	}
	s.Direct, err = newClient(s.options.Dir, "direct", k.kubectl, "https://127.0.0.1:"+strconv.Itoa(s.port), k.ca.pem, admin)
	return s, err
}

// serverProgram returns the value of METAL3_APISERVER, for example the path of a program that was
// built with the race detector, or else the path of bin/metal3-apiserver in the checkout.
func serverProgram() (string, error) {
	if path := os.Getenv("METAL3_APISERVER"); path != "" {
		return path, nil
	}
	return builtProgram(ServiceName, "make build")
}

func (s *Server) path(name string) string { return filepath.Join(s.options.Dir, name) }

// Start starts the server and waits until it is ready, as the probe of the manifests understands it,
// and recognises the administrator.
func (s *Server) Start(ctx context.Context) error {
	kubeconfig := s.path("server.kubeconfig")
	args := []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(s.port),
		"--tls-cert-file=" + s.path("serving.crt"), "--tls-private-key-file=" + s.path("serving.key"),
	}
	if !s.options.RefuseLocalAddresses {
		args = append(args, "--allow-local-addresses") // the simulated BMCs have some
	}
	if s.options.ReadTimeout != 0 {
		args = append(args, "--ironic-read-timeout="+s.options.ReadTimeout.String())
	}
	if s.options.IronicEndpoint != "" {
		args = append(args, "--ironic-endpoint="+s.options.IronicEndpoint)
	}
	var env []string
	if clouds := s.clouds(); clouds != "" {
		args, env = append(args, "--ironic-cloud="+CloudName), append(env, "OS_CLIENT_CONFIG_FILE="+clouds)
	}
	if s.options.EtcdServers != "" {
		args = append(args, "--etcd-servers="+s.options.EtcdServers)
	} else {
		args = append(args, "--data-dir="+s.path("data"))
	}
	var err error
	s.run, err = command{
		name: ServiceName, log: s.LogPath, path: s.program,
		args: append(args, s.options.Args...), env: env,
	}.start()
	if err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(s.Direct.Config)
	if err != nil {
		return err
	}
	return s.run.waitReady(ctx, func(ctx context.Context) error {
		if err := client.RESTClient().Get().AbsPath("/readyz").Param("exclude", "etcd-space").Do(ctx).Error(); err != nil {
			return err
		}
		// The server can be ready a moment before it has read the client CA. It answers 403 until then.
		return client.RESTClient().Get().AbsPath(groupVersionPath).Do(ctx).Error()
	})
}

// clouds returns the path of the clouds.yaml with the server's credentials for Ironic, if it needs any.
func (s *Server) clouds() string {
	if s.options.Clouds != "" {
		return s.options.Clouds
	}
	path, _ := cloudsOf.Load(s.options.IronicEndpoint)
	clouds, _ := path.(string)
	return clouds
}

// SetCertificate replaces the serving certificate, also while the server runs. Direct no longer works if
// its certificate authority is not that of Kube.
func (s *Server) SetCertificate(cert, key []byte) error {
	return keyPair{cert: cert, key: key}.write(s.path("serving"))
}

// Restart stops the server, starts it with other additional flags, and waits until the API is served
// through kube-apiserver again.
func (s *Server) Restart(ctx context.Context, args ...string) error {
	if _, err := s.Stop(); err != nil {
		return err
	}
	s.options.Args = args
	if err := s.Start(ctx); err != nil {
		return err
	}
	return s.WaitAvailable(ctx)
}

// Stop sends SIGTERM to the server and returns how long it took to end. If the server was built with
// the race detector and has logged a data race, Stop returns an error.
func (s *Server) Stop() (time.Duration, error) {
	started := time.Now()
	err := s.run.stop()
	return time.Since(started), errors.Join(err, s.dataRace())
}

func (s *Server) dataRace() error {
	log, err := readFile(s.LogPath)
	if errors.Is(err, os.ErrNotExist) {
		return nil // never started
	}
	if i := strings.Index(log, "WARNING: DATA RACE"); i >= 0 {
		report := log[i:]
		return fmt.Errorf("data race in %s:\n%s", ServiceName, report[:min(len(report), 8192)])
	}
	return err
}

// Program returns the path of the server's program.
func (s *Server) Program() string { return s.program }

// Kill kills the server.
func (s *Server) Kill() error { return s.run.kill() }

// Alive reports whether the server's process is running.
func (s *Server) Alive() bool { return s.run != nil && s.run.alive() }

// PID returns the ID of the server's process.
func (s *Server) PID() int { return s.run.cmd.Process.Pid }

// DataDir returns the directory of the embedded etcd.
func (s *Server) DataDir() string { return s.path("data") }

// Logs returns what the server has logged since its first start.
func (s *Server) Logs() (string, error) {
	content, err := readFile(s.LogPath)
	return strings.TrimSpace(content), err
}

// ApplyRBAC creates the namespace and applies the manifests of what the server and its users may
// do, including the component by which users get their permissions from view, edit and admin.
// The server has no other rights.
func (s *Server) ApplyRBAC(ctx context.Context) error {
	k := s.options.Kube
	k.applying.Lock()
	defer k.applying.Unlock()
	if _, _, err := k.Kubectl(ctx, asJSON(object{
		"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": Namespace},
	}), "apply", "-f", "-"); err != nil {
		return err
	}
	repo, err := RepoRoot()
	if err != nil {
		return err
	}
	manifests := func(pattern string) (paths []string, err error) {
		return filepath.Glob(filepath.Join(repo, "artifacts", "apiservice", pattern))
	}
	roles, err := manifests("base/*role*.yaml")
	if err != nil {
		return err
	}
	args := []string{"apply", "-f", filepath.Join(repo, "artifacts", "apiservice", "base", "serviceaccount.yaml")}
	for _, path := range roles {
		args = append(args, "-f", path)
	}
	if _, _, err := k.Kubectl(ctx, "", args...); err != nil {
		return fmt.Errorf("the server's RBAC manifests: %w", err)
	}
	patches, err := manifests("components/aggregated-roles/clusterrole-*.yaml")
	if err != nil {
		return err
	}
	for _, path := range patches {
		if _, _, err := k.Kubectl(ctx, "", "patch", "-f", path, "--patch-file", path); err != nil {
			return fmt.Errorf("the component aggregated-roles: %w", err)
		}
	}
	return nil
}
