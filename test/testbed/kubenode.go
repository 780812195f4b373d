// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// KubeNodeIP is the address of a KubeNode, at which it and its pods reach what KubeNode.Listen listens to.
const KubeNodeIP = "192.168.77.1"

// KubeNode is a cluster of one node, with a control plane, a kubelet, containerd and kube-proxy, in namespaces of its own on this
// machine. Nothing of it can be reached from the machine's network.
type KubeNode struct {
	// Admin is a user in system:masters.
	Admin *Client

	dir, script, bin string
	run              *process
	network          *os.File // its network namespace
}

// StartKubeNode starts a node with its files in dir, which must exist. It needs root, and cgroup v1.
func StartKubeNode(ctx context.Context, dir string) (*KubeNode, error) {
	n := &KubeNode{dir: dir}
	if err := n.prepare(); err != nil {
		return nil, err
	}
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

func (n *KubeNode) prepare() error {
	root, err := RepoRoot()
	if err != nil {
		return err
	}
	n.script, n.bin = filepath.Join(root, "test", "cluster", "node.sh"), filepath.Join(root, "bin")
	for name, content := range map[string]string{"containerd.toml": containerdConfig, "kubelet.yaml": kubeletConfig, "kube-proxy.yaml": kubeProxyConfig, "cni/10-bridge.conflist": networkConfig} {
		path := n.path(name)
		content = strings.NewReplacer("NODE_IP", KubeNodeIP, "NODE", n.dir, "BIN", n.bin).Replace(content)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			return err
		}
	}
	return n.writeKeys()
}

// writeKeys issues the certificates of all parts, which are named as in a cluster that kubeadm has made.
func (n *KubeNode) writeKeys() error {
	ca, err := newAuthority("node-ca")
	if err != nil {
		return err
	}
	frontProxyCA, err := newAuthority("node-front-proxy-ca")
	if err != nil {
		return err
	}
	for name, issue := range map[string]func() (keyPair, error){
		"apiserver":        func() (keyPair, error) { return ca.server("kubernetes.default.svc", KubeNodeIP, "10.96.0.1") },
		"kubelet-client":   func() (keyPair, error) { return ca.client("kube-apiserver-kubelet-client", "system:masters") },
		"front-proxy":      func() (keyPair, error) { return frontProxyCA.client("front-proxy-client") },
		"service-accounts": func() (keyPair, error) { return ca.client("service-accounts") }, // only its key is used
	} {
		pair, err := issue()
		if err != nil {
			return err
		}
		if err := pair.write(n.path(name)); err != nil {
			return err
		}
	}
	for name, user := range map[string][]string{
		"admin":                   {"admin", "system:masters"},
		"kube-controller-manager": {"system:kube-controller-manager"},
		"kube-scheduler":          {"system:kube-scheduler"},
		"kube-proxy":              {"system:kube-proxy"},
		"kubelet":                 {"system:node:node1", "system:nodes"},
	} {
		pair, err := ca.client(user[0], user[1:]...)
		if err != nil {
			return err
		}
		client, err := newClient(n.dir, name, filepath.Join(n.bin, "kubectl"), "https://"+KubeNodeIP+":6443", ca.pem, pair)
		if err != nil {
			return err
		}
		if name == "admin" {
			n.Admin = client
		}
	}
	return errors.Join(
		os.WriteFile(n.path("ca.crt"), ca.pem, 0o644),
		os.WriteFile(n.path("front-proxy-ca.crt"), frontProxyCA.pem, 0o644),
	)
}

func (n *KubeNode) start(ctx context.Context) (err error) {
	n.run, err = command{name: "the node", log: n.path("node.log"), path: n.script, args: []string{"up"}, env: n.env()}.start()
	if err != nil {
		return err
	}
	if err := n.run.waitReady(ctx, func(context.Context) error { _, err := os.Stat(n.path("started")); return err }); err != nil {
		return err
	}
	if n.network, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", n.run.cmd.Process.Pid)); err != nil {
		return err
	}
	n.Admin.enter = n.enter("--net")
	n.Admin.Config.Dial = n.Dial
	return n.run.waitReady(ctx, func(ctx context.Context) error {
		_, _, err := n.Admin.Kubectl(ctx, "", "wait", "--for=condition=Ready", "--timeout=10s", "node/node1")
		return err
	})
}

func (n *KubeNode) env() []string {
	return []string{"NODE=" + n.dir, "NODE_IP=" + KubeNodeIP, "BIN=" + n.bin}
}

func (n *KubeNode) path(name string) string { return filepath.Join(n.dir, name) }

// enter returns the beginning of a command that runs in namespaces of the node.
func (n *KubeNode) enter(namespaces ...string) []string {
	return slices.Concat([]string{"nsenter", "--target=" + strconv.Itoa(n.run.cmd.Process.Pid)}, namespaces, []string{"--"})
}

// Command returns a command that runs in the node's network, with the programs of bin/ in its PATH and the administrator's
// kubeconfig.
func (n *KubeNode) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return n.command(ctx, n.enter("--net"), append([]string{name}, args...))
}

func (n *KubeNode) command(ctx context.Context, enter, command []string) *exec.Cmd {
	command = slices.Concat(enter, command)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PATH="+n.bin+":"+filepath.Join(n.bin, "node")+":"+os.Getenv("PATH"),
		"KUBECONFIG="+n.Admin.Kubeconfig, "KUBECACHEDIR="+n.Admin.cache, "KUBERC=off")
	return cmd
}

// Load loads the images of an archive by the beginning of a command.
func (n *KubeNode) Load(ctx context.Context, archive string, ctr ...string) error {
	out, err := n.command(ctx, n.enter("--net", "--mount"), append(ctr, archive)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%q %s: %w: %s", ctr, archive, err, out)
	}
	return nil
}

// Dial connects from the node, which reaches its pods and Services.
func (n *KubeNode) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.inNetwork(func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens on a port of KubeNodeIP.
func (n *KubeNode) Listen(port int) (listener net.Listener, err error) {
	err = n.inNetwork(func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(KubeNodeIP, strconv.Itoa(port)))
		return err
	})
	return listener, err
}

// inNetwork calls do, which opens a socket, in the node's network. The socket stays there. The thread comes back, because what it has
// started would get a signal if it ended.
func (n *KubeNode) inNetwork(do func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	if err := unix.Setns(int(n.network.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("the node's network: %w", err)
	}
	err = do()
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread stays locked, so that nothing else uses it
	}
	runtime.UnlockOSThread()
	return err
}

// Logs returns the ends of the logs of all parts.
func (n *KubeNode) Logs() string {
	paths, err := filepath.Glob(n.path("*.log"))
	if err != nil {
		return err.Error()
	}
	var logs strings.Builder
	for _, path := range paths {
		fmt.Fprintf(&logs, "=== %s\n%s\n", filepath.Base(path), tail(path))
	}
	return logs.String()
}

// Stop ends everything on the node.
func (n *KubeNode) Stop() error {
	err := n.run.kill()
	if n.network != nil {
		err = errors.Join(err, n.network.Close())
	}
	// Its processes end after the first one, one after the other, and a cgroup stays as long as one of them is in it.
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	return errors.Join(err, poll(ctx, func(ctx context.Context) error {
		down := exec.CommandContext(ctx, n.script, "down")
		down.Env = append(os.Environ(), n.env()...)
		if out, err := down.CombinedOutput(); err != nil {
			return fmt.Errorf("the node's cgroups: %w: %s", err, out)
		}
		return nil
	}))
}
