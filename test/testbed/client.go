package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Client is one user's way to a server: for Go programs, for kubectl and for
// anything else that takes a kubeconfig.
type Client struct {
	// Config has no client-side rate limit.
	Config *rest.Config
	// Kubeconfig is the path of the file.
	Kubeconfig string

	kubectl string
	cache   string
}

// newClient writes the kubeconfig dir/name.kubeconfig.
func newClient(dir, name, kubectl, server string, ca []byte, pair keyPair) (*Client, error) {
	kubeconfig := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"testbed": {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: pair.cert, ClientKeyData: pair.key}},
		Contexts:       map[string]*clientcmdapi.Context{"testbed": {Cluster: "testbed", AuthInfo: name}},
		CurrentContext: "testbed",
	}
	path := filepath.Join(dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfig, path); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(kubeconfig, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return &Client{Config: config, Kubeconfig: path, kubectl: kubectl, cache: filepath.Join(dir, name+".cache")}, nil
}

// Kubectl runs bin/kubectl as this user. Its error has what kubectl said on stderr.
func (c *Client) Kubectl(ctx context.Context, stdin string, args ...string) (stdout, stderr string, err error) {
	cmd := c.KubectlCommand(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), errOut.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), errOut.String(), nil
}

// KubectlCommand is a kubectl that the caller starts, such as `get --watch`.
// It ends with ctx.
func (c *Client) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.kubectl, args...)
	// A discovery cache of its own: nothing of the person's home directory is read or written.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "KUBECACHEDIR="+c.cache)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// fileName makes a user name usable as the name of a file.
func fileName(user string) string {
	return strings.NewReplacer("/", "_", ":", "_").Replace(user)
}
